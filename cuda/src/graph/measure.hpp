// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/graph_order.hpp"

#include <gsched/core/time.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace gsched::cuda {

struct measured_graph {
  std::vector<duration> operations{};
  duration whole{}; ///< replayed as it is
};

/// Adds a copy of node i of a flattened graph to a graph, without edges.
using add_node = std::function<CUgraphNode(CUgraph to, std::uint32_t i)>;

/// Runs a graph 2 + runs times as it is, and 1 + runs times one operation after another with the
/// GPU's clock read between them, more often where that clock is coarse; on a stream of its own, in
/// graphs alone.
///
/// Units    an operation's time is what it takes beyond a kernel that does nothing, for which 0.5
///          us are counted. What overlaps in the graph counts once: if the times add up to more
///          than the whole graph takes, all shrink alike.
/// Errors   device_failed: CUDA's words, or the operation that has not ended after 20 s; what was
///          made for the measurement is left behind then, as to free it would wait for the GPU.
[[nodiscard]] measured_graph measure_graph(CUgraph whole, const flat_graph& flat,
                                           const add_node& add, int runs, const std::string& where);

/// What an empty kernel counts as, and the least that any operation does.
inline constexpr duration least_operation{500};

/// Turns readings of the clock into times. `stamps` holds, for each run, one reading before each
/// operation and one at the end, in nanoseconds; `step` is what one reading costs; with `mean` the
/// runs are averaged, as is right for a clock that is coarser than what it measures, else the
/// median is taken.
[[nodiscard]] std::vector<duration> times_of(std::span<const std::vector<std::uint64_t>> stamps,
                                             duration step, bool mean);

/// What an operation may take beyond its own time, in a row of them: the gap to the next.
inline constexpr duration most_gap{1500};

/// Makes times add up to `whole`, gaps included, as a lane that runs them is as long busy: all by
/// the same factor, and by no more than most_gap an operation longer, as a short graph's replay
/// holds its launch.
void fit(std::vector<duration>& times, duration whole) noexcept;

} // namespace gsched::cuda

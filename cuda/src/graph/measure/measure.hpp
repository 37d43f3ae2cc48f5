// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/flatten/graph_order.hpp"

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
  duration whole{}; ///< one replay of the graph
};

/// Adds a copy of node i of a flattened graph to the graph `to`, without edges.
using add_node = std::function<CUgraphNode(CUgraph to, std::uint32_t i)>;

/// Measures a graph and its operations on a stream of its own, with graph launches only. Runs the
/// graph 2 + runs times, and 1 + runs times its operations in a chain with clock readings between
/// them; more often if the GPU's clock is coarse.
///
/// Units    an operation's time is its time beyond an empty kernel, plus 0.5 us. If the times add
///          up to more than the whole graph takes, all are scaled down, so that overlapping time
///          counts once.
/// Errors   device_failed: CUDA's message, or the operation that has not ended after 20 s. The
///          resources of the measurement are then abandoned, because freeing them would wait for
///          the GPU.
[[nodiscard]] measured_graph measure_graph(CUgraph whole, const flat_graph& flat,
                                           const add_node& add, int runs, const std::string& where);

/// The time of an empty kernel, and the minimum time of an operation.
inline constexpr duration least_operation{500};

/// Converts clock readings to operation times.
///
/// `stamps` has, for each run, one reading in nanoseconds before each operation and one at the end.
/// `step` is the cost of one reading. With `mean`, runs are averaged, which suits a clock that is
/// coarser than the operations; otherwise the median is taken.
[[nodiscard]] std::vector<duration> times_of(std::span<const std::vector<std::uint64_t>> stamps,
                                             duration step, bool mean);

/// The gap after an operation in a chain, at most.
inline constexpr duration most_gap{1500};

/// Scales times by one factor so that they add up to `whole`, gaps included: a lane is busy for
/// that time. An operation grows by at most most_gap, because the replay time of a short graph
/// contains its launch.
void fit(std::vector<duration>& times, duration whole) noexcept;

} // namespace gsched::cuda

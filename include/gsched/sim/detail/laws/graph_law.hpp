// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>

#include <cmath>
#include <cstddef>

namespace gsched::sim {

/// Converts times of individually measured operations to the time of a graph of them. An operation
/// takes slightly longer when measured alone than within a graph, and a dependent operation starts
/// a gap after its predecessor has ended.
///
/// Source   chosen by hand on a coarse grid, against the graph replays of 22 profiles and of 176
///          partitions of one H200.
struct graph_law {
  double scale = 0.986;         ///< factor for an operation's time inside a graph
  duration gap = from_us(0.34); ///< between dependent operations of one graph

  [[nodiscard]] duration operation(duration alone) const noexcept {
    return duration{std::llround(static_cast<double>(alone.count()) * scale)};
  }

  /// A chain of `operations` operations that take `sum` when measured individually, with nothing
  /// else running.
  [[nodiscard]] duration replay(duration sum, std::size_t operations) const noexcept {
    if (operations == 0) return duration::zero();
    return operation(sum) + gap * static_cast<duration::rep>(operations - 1);
  }
};

} // namespace gsched::sim

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph_order.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace gsched::cuda {

/// What gates add to a graph whose nodes are passed in an order that keeps its edges.
///
/// A gate beside a node waits for all nodes before the node, and all nodes after it wait for the
/// gate. In a chain these are one edge to the gate and one from it. Where a graph forks, its
/// branches meet at each gate; what stands between two gates still runs side by side.
class gate_order {
public:
  enum class role {
    plain,
    beside, ///< has a gate beside it
    gates   ///< a child graph with gates in it, which is as good as one: it waits for all before it
  };
  struct step {
    unsigned waits = 0; ///< for so many of the latest gates, 2 at most, by edges of its own
    /// What the gate waits for; of a child graph with gates: it, beyond what it waits for anyway.
    std::vector<std::uint32_t> ends{};
    /// The new gate waits for the node beside the latest gate and not for that gate.
    bool follows = false;
  };

  gate_order(std::size_t nodes, std::span<const graph_edge> edges);
  /// The next node of the order. Nodes that are not passed count for nothing.
  [[nodiscard]] step pass(std::uint32_t node, role what);

private:
  std::vector<std::vector<std::uint32_t>> before_; ///< by node: those with an edge to it
  std::vector<std::uint32_t> behind_; ///< by node: it waits for the first so many gates
  std::vector<std::uint32_t> open_;   ///< passed, and nothing passed waits for it
  std::uint32_t gates_ = 0;
  bool latest_follows_ = false;
};

} // namespace gsched::cuda

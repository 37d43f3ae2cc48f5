// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace gsched::cuda {

/// From, to: places in a list of nodes.
using graph_edge = std::pair<std::uint32_t, std::uint32_t>;

struct graph_level;

/// A node of a graph, and where it stands in the order of its operations.
struct level_node {
  CUgraphNode handle = nullptr;
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  std::unique_ptr<graph_level> child{}; ///< of a child graph
  std::uint32_t first = 0;              ///< operations [first, last) are it, ...
  std::uint32_t last = 0;               ///< ... or in it, or what it goes with

  [[nodiscard]] bool is_operation() const noexcept {
    return type == CU_GRAPH_NODE_TYPE_KERNEL || type == CU_GRAPH_NODE_TYPE_MEMCPY ||
           type == CU_GRAPH_NODE_TYPE_MEMSET;
  }
};

/// A graph as its nodes and edges; that of a child graph is a level below.
struct graph_level {
  CUgraph graph = nullptr;
  std::vector<level_node> nodes{};
  std::vector<graph_edge> edges{};
  std::vector<std::uint32_t> order{}; ///< of the nodes, set by flatten
};

/// The operations of a graph and of all below it, in the order in which they run.
struct flat_graph {
  std::vector<level_node*> operations{};
  std::vector<std::vector<std::uint32_t>> after{}; ///< each waits for directly, rising
};

/// An order of n nodes that keeps all edges: of those whose predecessors are placed, the one with
/// the smallest number comes next. Shorter than n if there is a cycle, which is then missing.
///
/// Cost     O((n + edges) log n).
[[nodiscard]] std::vector<std::uint32_t> topological_order(std::size_t n,
                                                           std::span<const graph_edge> edges);

/// Numbers the operations, level by level: a child graph's stand together, where its node stands.
/// Other nodes go with the operation before them, or with the first. So operations [a, b) and the
/// nodes that go with them hold every node on a path between two of them.
///
/// Errors   false where a level has a cycle.
[[nodiscard]] bool flatten(graph_level& top, flat_graph& into);

} // namespace gsched::cuda

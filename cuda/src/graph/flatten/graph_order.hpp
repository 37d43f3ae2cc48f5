// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace gsched::cuda {

/// An edge between two nodes of a list.
struct graph_edge {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  CUgraphEdgeData data{};

  /// Whether the later node starts after the earlier one has ended. Behind a programmatic edge, the
  /// later kernel may start, and even end, before the earlier one has ended.
  [[nodiscard]] bool is_full() const noexcept {
    return data.type == CU_GRAPH_DEPENDENCY_TYPE_DEFAULT && data.from_port == 0;
  }
};

struct graph_level;

struct level_node {
  CUgraphNode handle = nullptr;
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  std::unique_ptr<graph_level> child{}; ///< of a child graph node

  [[nodiscard]] bool is_operation() const noexcept {
    return type == CU_GRAPH_NODE_TYPE_KERNEL || type == CU_GRAPH_NODE_TYPE_MEMCPY ||
           type == CU_GRAPH_NODE_TYPE_MEMSET;
  }
};

/// The nodes and edges of a graph. Each child graph is a level of its own.
struct graph_level {
  std::vector<level_node> nodes{};
  std::vector<graph_edge> edges{};
};

/// A node of a flattened graph: an operation, or a node that belongs to one.
struct flat_node {
  CUgraphNode handle = nullptr; ///< null: an empty node at the end of a child graph
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  std::uint32_t operation = 0;      ///< the operation that it is or belongs to
  std::vector<graph_edge> before{}; ///< incoming edges
};

/// A graph and its child graphs as one list of nodes. Kernels, copies and sets are operations,
/// numbered in program order. Any other node belongs to the last operation that it depends on, or
/// to the first operation. Nodes are sorted by operation, and each edge leads forward. The nodes of
/// operations [a, b) are therefore one range of the list, which contains every node on a path
/// between two of its nodes.
struct flat_graph {
  std::vector<flat_node> nodes{};
  std::vector<std::uint32_t> first_node{};         ///< by operation, plus the end: its first node
  std::vector<std::uint32_t> node_of{};            ///< by operation: the node that is the operation
  std::vector<std::vector<std::uint32_t>> after{}; ///< by operation: its dependencies, rising

  [[nodiscard]] std::size_t operations() const noexcept { return node_of.size(); }
};

/// Flattens a graph. Program order is by depth, the length of the longest path of operations to an
/// operation, then by capture order. A chain keeps its order. Parallel branches are interleaved, so
/// that a cut divides all of them. Empty if a level has a cycle.
///
/// Cost     O(nodes + edges), plus sorting and the sets of `after`.
[[nodiscard]] std::optional<flat_graph> flatten(const graph_level& top);

/// The cost of a cut before each operation, beyond the gap between two graphs of a chain. It is the
/// time in which the GPU waits for the last operation before the cut while operations behind it
/// could run, plus `branch` for each branch but one that ends at the cut, and for each but one that
/// begins there.
///
/// Units    as `times`; one value for each operation and one for the end. 0 for a chain.
/// Cost     O(operations + dependencies).
[[nodiscard]] std::vector<std::int64_t>
cut_losses(std::span<const std::vector<std::uint32_t>> after, std::span<const std::int64_t> times,
           std::int64_t branch);

} // namespace gsched::cuda

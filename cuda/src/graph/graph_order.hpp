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

/// An edge between two nodes of one list.
struct graph_edge {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  CUgraphEdgeData data{};

  /// The later node starts after the earlier one has ended. Not so for a programmatic edge: the
  /// later kernel may start, and even end, before the earlier one has ended.
  [[nodiscard]] bool is_full() const noexcept {
    return data.type == CU_GRAPH_DEPENDENCY_TYPE_DEFAULT && data.from_port == 0;
  }
};

struct graph_level;

struct level_node {
  CUgraphNode handle = nullptr;
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  std::unique_ptr<graph_level> child{}; ///< of a child graph

  [[nodiscard]] bool is_operation() const noexcept {
    return type == CU_GRAPH_NODE_TYPE_KERNEL || type == CU_GRAPH_NODE_TYPE_MEMCPY ||
           type == CU_GRAPH_NODE_TYPE_MEMSET;
  }
};

/// A graph as its nodes and edges. Each child graph is a level of its own.
struct graph_level {
  std::vector<level_node> nodes{};
  std::vector<graph_edge> edges{};
};

/// A node of a flattened graph: an operation, or a node that goes with one.
struct flat_node {
  CUgraphNode handle = nullptr; ///< null for an empty node that stands for an end of a child graph
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  std::uint32_t operation = 0;      ///< it is this one, or goes with it
  std::vector<graph_edge> before{}; ///< edges to it
};

/// A graph and all its child graphs as one list of nodes. Kernels, copies and sets are operations,
/// numbered in program order; other nodes go with the last operation that they wait for, or with
/// the first of the program. Nodes are sorted by operation, and every edge leads forward. So the
/// nodes of operations [a, b) are one range of the list, and that range holds every node on a path
/// between two of its nodes.
struct flat_graph {
  std::vector<flat_node> nodes{};
  std::vector<std::uint32_t> first_node{}; ///< by operation, and one more: where its nodes begin
  std::vector<std::uint32_t> node_of{};    ///< by operation: the node that is the operation
  std::vector<std::vector<std::uint32_t>> after{}; ///< by operation: those it waits for, rising

  [[nodiscard]] std::size_t operations() const noexcept { return node_of.size(); }
};

/// Flattens a graph. Program order is by depth, the length of the longest path of operations that
/// leads to an operation, then by capture order. A chain keeps its order; branches that run side by
/// side are interleaved, so that a cut through a graph that forks cuts all branches.
///
/// Errors   none where a level has a cycle.
/// Cost     O(nodes + edges) but for sorting and the sets of `after`.
[[nodiscard]] std::optional<flat_graph> flatten(const graph_level& top);

/// What a cut before each operation costs beyond the gap between two graphs of a chain: how long
/// the GPU waits for the last operation before the cut while operations behind it could already
/// run, and `branch` for each operation but one that ends the graph before it, and for each but one
/// that begins the graph behind it.
///
/// Units    as `times`; one entry for each operation and one for the end. 0 for a chain.
/// Cost     O(operations + dependencies).
[[nodiscard]] std::vector<std::int64_t>
cut_losses(std::span<const std::vector<std::uint32_t>> after, std::span<const std::int64_t> times,
           std::int64_t branch);

} // namespace gsched::cuda

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/graph_build.hpp"
#include "graph/graph_order.hpp"
#include "graph/graph_read.hpp"
#include "graph/program_node.hpp"

#include <gsched/cuda/program.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace gsched::cuda {

struct program::state {
  program* self = nullptr; ///< follows moves
  int gpu = 0;
  graph_owner whole{}; ///< a clone of what was captured; the nodes' parameters live in it
  flat_graph flat{};   ///< of whole
  std::deque<program_node> nodes{}; ///< one an operation; in place
  std::vector<node_facts> facts{};
  std::vector<std::uint32_t> instrumented{}; ///< operations, rising
  /// By operation, and one more: nodes before it that no kernel can stand for.
  std::vector<std::uint32_t> outside_until{};
  std::optional<gsched::program> host{};
  std::optional<duration> replay{};
  bool leaves = false; ///< all operations do
  std::vector<leaving_restriction> restricted{};

  /// Reads the nodes of `flat` into `nodes`, `facts` and operations.
  [[nodiscard]] std::vector<operation> read_operations(const std::string& where);
  /// Of a range that is to have gates: empty nodes that are left out, as the nodes behind them can
  /// wait for those before them. In a graph that forks an empty node splits it as a copy does.
  /// Where that would be too many edges, a kernel stands for the node.
  [[nodiscard]] std::vector<bool> left_out(std::span<const flat_node> range,
                                           std::uint32_t base) const;
  /// Adds gates to a range's graph, and their edges to the list. `operations`: the range's nodes.
  [[nodiscard]] std::vector<gate> add_gates(CUgraph graph, std::span<const CUgraphNode> operations,
                                            std::size_t first, const range_options& how,
                                            edge_list& edges, const std::string& what) const;
  /// The nodes of `flat` that are, or go with, operations [first, last).
  [[nodiscard]] std::span<const flat_node> nodes_of(std::size_t first,
                                                    std::size_t last) const noexcept {
    return std::span(flat.nodes)
        .subspan(flat.first_node[first], flat.first_node[last] - flat.first_node[first]);
  }
};

} // namespace gsched::cuda

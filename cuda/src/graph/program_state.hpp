// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/build/graph_build.hpp"
#include "graph/flatten/graph_order.hpp"
#include "graph/flatten/graph_read.hpp"
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
  program* self = nullptr; ///< follows moves of the program
  int gpu = 0;
  graph_owner whole{};              ///< a clone of the captured graph; owns the nodes' parameters
  flat_graph flat{};                ///< of `whole`
  std::deque<program_node> nodes{}; ///< one for each operation; stable addresses
  std::vector<node_facts> facts{};
  std::vector<std::uint32_t> instrumented{}; ///< operations, rising
  /// By operation, plus the end: earlier nodes that no kernel can replace.
  std::vector<std::uint32_t> outside_until{};
  std::optional<gsched::program> host{};
  std::optional<duration> replay{};
  bool preemptible = false; ///< all operations are preemptible
  std::vector<preemptibility_restriction> restricted{};

  /// Reads the nodes of `flat` into `nodes`, `facts` and operations.
  [[nodiscard]] std::vector<operation> read_operations(const std::string& where);
  /// Selects the empty nodes of a range that are replaced by direct edges. In a graph that forks,
  /// an empty node splits the graph as a copy does. An empty node that would become too many edges
  /// stays; in a range with gates a kernel replaces it.
  [[nodiscard]] std::vector<bool> left_out(std::span<const flat_node> range,
                                           std::uint32_t base) const;
  /// Adds gates to the graph of a range, and their edges to `edges`. `operations`: the range's
  /// nodes.
  [[nodiscard]] std::vector<gate> add_gates(CUgraph graph, std::span<const CUgraphNode> operations,
                                            std::size_t first, const range_options& how,
                                            edge_list& edges, const std::string& what) const;
  /// The nodes of `flat` that belong to operations [first, last).
  [[nodiscard]] std::span<const flat_node> nodes_of(std::size_t first,
                                                    std::size_t last) const noexcept {
    return std::span(flat.nodes)
        .subspan(flat.first_node[first], flat.first_node[last] - flat.first_node[first]);
  }
};

} // namespace gsched::cuda

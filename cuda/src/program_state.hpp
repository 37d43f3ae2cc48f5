// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph_walk.hpp"
#include "program_gates.hpp"
#include "program_node.hpp"

#include <gsched/cuda/program.hpp>

#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace gsched::cuda {

struct program::state {
  program* self = nullptr; ///< follows moves
  int gpu = 0;
  graph_owner whole{}; ///< a clone of what was captured
  graph_level top{};   ///< of whole
  flat_graph flat{};
  std::deque<program_node> nodes{}; ///< one an operation; in place
  std::vector<node_facts> facts{};
  std::vector<std::uint32_t> instrumented{}; ///< operations, rising
  std::optional<gsched::program> host{};
  std::optional<duration> replay{};
  bool leaves = false; ///< all operations do
  std::vector<leaving_restriction> restricted{};

  /// What make_range makes of a clone.
  struct range {
    std::size_t first = 0;
    std::size_t last = 0;
    range_options how{};
    std::string what{}; ///< for errors
    std::optional<range_gates> gates{};
  };
  /// Takes nodes out of a clone of `level` that do not go with the range, has the instrumented ones
  /// report, adds gates, and places the kernels.
  void keep_range(const graph_level& level, CUgraph clone, range& r) const;
};

} // namespace gsched::cuda

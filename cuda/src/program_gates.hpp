// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gate_order.hpp"
#include "graph_order.hpp"

#include <gsched/cuda/program.hpp>

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace gsched::cuda {

/// The gates of a range, of the graphs within its graph as well.
struct range_gates {
  CUdeviceptr line = 0;
  unsigned every = 1;
  std::size_t last = 0;      ///< end of the range
  std::string what{};        ///< for errors
  std::uint32_t kernels = 0; ///< so far
  std::vector<gate> made{};  ///< so far
};

/// Gives one level of a range's graph its gates, while its nodes are passed in the order of the
/// program, each after what is within it.
class level_gates {
public:
  /// `clone`: of the level's graph; `found`: its nodes.
  level_gates(range_gates& all, const graph_level& level, CUgraph clone,
              std::span<const CUgraphNode> found)
      : all_(all), level_(level), clone_(clone), found_(found), order_(found.size(), level.edges) {}

  /// Node i of the level is in the range. `within`: it is a child graph that has gates by now.
  void pass(std::uint32_t i, bool within);

private:
  [[nodiscard]] gate_order::role role_of(const level_node& node, bool within) noexcept;
  void build_beside(std::uint32_t i, const gate_order::step& s);
  void wait_for(CUgraphNode before, CUgraphNode node);

  range_gates& all_;
  const graph_level& level_;
  CUgraph clone_;
  std::span<const CUgraphNode> found_;
  gate_order order_;
  CUgraphNode latest_[2] = {}; ///< gates or child graphs with gates, the last one first
};

} // namespace gsched::cuda

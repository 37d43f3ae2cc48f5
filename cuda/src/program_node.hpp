// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "preemption_parameter.hpp"

#include <gsched/cuda/action.hpp>
#include <gsched/cuda/program.hpp>
#include <gsched/cuda/report.hpp>
#include <gsched/job/operation.hpp>

#include <cuda.h>

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace gsched::cuda {

/// What operation::handle of a program's operations points to.
struct program_node : action {
  program_node() noexcept : action{kind::node} {}

  static constexpr std::size_t max_attributes = 6;
  static constexpr std::size_t max_reported_arguments = 256; ///< of an instrumented kernel

  void* owner = nullptr; ///< the program's state
  CUgraphNode node = nullptr;
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;

  CUDA_KERNEL_NODE_PARAMS kernel{}; ///< its pointers lead into the node
  CUfunction function = nullptr;
  std::vector<void*> arguments{};        ///< of the kernel, one by one
  std::optional<std::size_t> reports_by; ///< the argument that is a report
  std::optional<preemption_parameter> leaves_by;
  std::array<CUlaunchAttribute, max_attributes> attributes{}; ///< for a direct launch
  unsigned attribute_count = 0;

  CUDA_MEMCPY3D copy{};
  CUDA_MEMSET_NODE_PARAMS set{};

  /// The node itself is in the graph; where: "graph resnet18: operation 3".
  void read(const std::string& where, operation& op, node_facts& facts);
  /// Sets the parameters of the same kernel in a clone that are for a device; those not given stay.
  void set_in_clone(CUgraphNode clone, const report* to, const preemption* leaves) const;
  /// One call of the driver, on a stream; `to` may be null.
  [[nodiscard]] CUresult launch(CUstream stream, const report* to) const noexcept;

private:
  void read_kernel(const std::string& where, operation& op, node_facts& facts);
  void read_copy(const std::string& where, operation& op);
  void read_set(const std::string& where, operation& op);
  void read_attributes(operation& op);
  void find_report(const std::string& where);
};

} // namespace gsched::cuda

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/graph_build.hpp"
#include "graph/memory_kernels.hpp"
#include "graph/preemption_parameter.hpp"

#include <gsched/cuda/action.hpp>
#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/program.hpp>
#include <gsched/cuda/report.hpp>
#include <gsched/job/operation.hpp>

#include <cuda.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
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
  node_attributes captured{};       ///< of the kernel's node
  CUfunction function = nullptr;
  std::vector<void*> arguments{};        ///< of the kernel, one by one
  std::optional<std::size_t> reports_by; ///< the argument that is a report
  std::optional<preemption_parameter> leaves_by;
  std::array<CUlaunchAttribute, max_attributes> attributes{}; ///< for a direct launch
  unsigned attribute_count = 0;

  CUDA_MEMCPY3D copy{};
  CUDA_MEMSET_NODE_PARAMS set{};
  std::optional<memory_work> work; ///< of a set or a copy that a kernel can do

  /// The node itself is in the graph; where: "graph resnet18: operation 3".
  void read(const std::string& where, int gpu, attribute_reader& attributes, operation& op,
            node_facts& facts);
  /// Whether a kernel does it, or can.
  [[nodiscard]] bool can_be_kernel() const noexcept {
    return type == CU_GRAPH_NODE_TYPE_KERNEL || work.has_value();
  }
  /// Whether its blocks wait for one another, so that all must run at once.
  [[nodiscard]] bool is_cooperative() const noexcept;
  /// How it is added to a graph.
  struct adding {
    const report* to = nullptr;         ///< null: as captured
    const preemption* leaves = nullptr; ///< null: as captured
    CUcontext place = nullptr;          ///< as for add_kernel_node
    bool as_kernel = false;             ///< a set or a copy becomes a kernel, if it can
  };
  /// Calls f(argument, word) for each 8-byte word of a kernel's arguments, structs included, until
  /// it returns true. Whether it did. Errors   device_failed: `where`, CUDA's words.
  template <class F>
  bool any_word(const std::string& where, F f) const {
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      std::size_t offset = 0;
      std::size_t size = 0;
      check(driver().cuFuncGetParamInfo(function, i, &offset, &size), where.c_str());
      const auto* const bytes = static_cast<const std::byte*>(arguments[i]);
      for (std::size_t at = (8 - offset % 8) % 8; at + 8 <= size; at += 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, bytes + at, sizeof word);
        if (f(i, word)) return true;
      }
    }
    return false;
  }
  /// Adds the operation to a graph, without edges. Errors   as add_kernel_node.
  [[nodiscard]] CUgraphNode add_to(CUgraph graph, const adding& how,
                                   const std::string& where) const;
  /// One call of the driver, on a stream; `to` may be null.
  [[nodiscard]] CUresult launch(CUstream stream, const report* to) const noexcept;

private:
  void read_kernel(const std::string& where, int gpu, attribute_reader& attributes_of,
                   operation& op, node_facts& facts);
  void read_copy(const std::string& where, operation& op);
  void read_set(const std::string& where, operation& op);
  void expect_gpu(const std::string& where, int gpu) const;
  void read_attributes(operation& op);
  void find_report(const std::string& where);
};

} // namespace gsched::cuda

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/build/graph_build.hpp"
#include "graph/build/memory_kernels.hpp"
#include "graph/preemption_parameter.hpp"

#include <gsched/cuda/action.hpp>
#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/notify/report.hpp>
#include <gsched/cuda/program.hpp>
#include <gsched/job/operation.hpp>

#include <cuda.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace gsched::cuda {

/// An operation of a program: the target of operation::handle.
struct program_node : action {
  program_node() noexcept : action{kind::node} {}

  static constexpr std::size_t max_attributes = 6;
  static constexpr std::size_t max_reported_arguments = 256; ///< of an instrumented kernel

  void* owner = nullptr; ///< the program's state
  CUgraphNode node = nullptr;
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;

  CUDA_KERNEL_NODE_PARAMS kernel{}; ///< its pointers refer to the node
  node_attributes captured{};       ///< of the captured kernel node
  CUfunction function = nullptr;
  std::vector<void*> arguments{};        ///< of the kernel, one pointer for each
  std::optional<std::size_t> reports_by; ///< index of the argument that is a report
  std::optional<preemption_parameter> preempted_by;
  std::array<CUlaunchAttribute, max_attributes> attributes{}; ///< for a direct launch
  unsigned attribute_count = 0;

  CUDA_MEMCPY3D copy{};
  CUDA_MEMSET_NODE_PARAMS set{};
  std::optional<memory_work> work; ///< the kernel that can replace a set or a copy
  /// Of the kernel; of one that replaces a set or a copy, the most urgent of the operations
  /// directly before and behind it, since sets and copies are captured without a priority.
  int priority = 0;

  /// Reads the captured node. `where`: "graph resnet18: operation 3".
  void read(const std::string& where, int gpu, attribute_reader& attributes, operation& op,
            node_facts& facts);
  /// Whether the operation is a kernel or can be replaced by one.
  [[nodiscard]] bool can_be_kernel() const noexcept {
    return type == CU_GRAPH_NODE_TYPE_KERNEL || work.has_value();
  }
  /// Whether it is a set of the GPU's memory or a copy within it.
  [[nodiscard]] bool is_within_gpu() const noexcept;
  /// Whether it is a cooperative launch, whose blocks must all run at once.
  [[nodiscard]] bool is_cooperative() const noexcept;
  /// Options of add_to.
  struct adding {
    const report* to = nullptr;            ///< null: as captured
    const preemption* parameter = nullptr; ///< null: as captured
    CUcontext place = nullptr;             ///< as for add_kernel_node
    bool as_kernel = false;                ///< replace a set or a copy by a kernel, if possible
  };
  /// Calls f(argument, word) for each aligned 8-byte word of a kernel's arguments, structs
  /// included, until f returns true. Returns whether it did.
  /// Errors   device_failed: `where`, CUDA's message.
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
  /// Adds the operation to a graph, without edges.
  /// Errors   as add_kernel_node.
  [[nodiscard]] CUgraphNode add_to(CUgraph graph, const adding& how,
                                   const std::string& where) const;
  /// Launches the operation on a stream with one call of the driver; `to` may be null.
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

/// Checks that a graph belongs to a GPU. Managed memory belongs to no GPU. A graph that also uses
/// memory of other GPUs is accepted, because it may copy between GPUs.
/// Errors   bad_graph if the operations use memory of GPUs, and none of it is of this one.
/// Cost     calls of the driver until the first memory of this GPU is found, usually a few.
void expect_memory_of(int gpu, const std::deque<program_node>& nodes, const std::string& where);

} // namespace gsched::cuda

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/cuda/colocate/pad_table.hpp>
#include <gsched/cuda/gpu.hpp>
#include <gsched/preempt/colocate/candidate.hpp>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace padding {

/// The begin and end of a real-time part, by the GPU's clock in nanoseconds: the start of its first
/// block and the end of its last. In device memory, zero before it runs.
struct stamps {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
};

/// A function with its arguments, in one of the two roles.
struct subject {
  std::string function; ///< its result
  std::string variant;  ///< its implementation: a tile, items or threads
  std::string shape;
  std::uint64_t bytes = 0; ///< moved by all its blocks
  gsched::kernel_variant facts{};
  gsched::duration plain{}; ///< of a real-time one: its time as a separate kernel

  [[nodiscard]] std::string name() const { return function + "<" + variant + ">(" + shape + ")"; }
};

enum class form {
  plain,  ///< a separate kernel
  proxy,  ///< a kernel of the family without co-runners
  pointer ///< a kernel that calls it by a function pointer
};

/// Blocks [first, first + blocks) of a co-runner.
struct share {
  std::size_t corunner = 0;
  std::uint32_t first = 0;
  std::uint32_t blocks = 0;
};

/// Real-time kernels and co-runners of a family of network functions, measured on the current GPU.
class subjects {
public:
  explicit subjects(const gsched::cuda::gpu& on, bool few);
  ~subjects();

  [[nodiscard]] const std::vector<subject>& real_time() const;
  [[nodiscard]] const std::vector<subject>& corunners() const;

  using after = std::span<const cudaGraphNode_t>;
  [[nodiscard]] cudaGraphNode_t add(cudaGraph_t g, after a, std::size_t real_time, form how,
                                    stamps* to) const;
  [[nodiscard]] cudaGraphNode_t add_padded(cudaGraph_t g, after a, std::size_t real_time,
                                           std::span<const share> beside, stamps* to) const;
  /// A co-runner as a plain kernel: its blocks without a real-time part.
  [[nodiscard]] cudaGraphNode_t add_plain_corunner(cudaGraph_t g, after a,
                                                   std::size_t corunner) const;
  [[nodiscard]] cudaGraphNode_t add_rest(cudaGraph_t g, after a, const share& of) const;

  /// The launch of both together.
  [[nodiscard]] gsched::cuda::pad_launch launch_of(std::size_t real_time,
                                                   std::span<const share> beside) const;
  [[nodiscard]] const gsched::cuda::pad_table& table() const;
  /// The gap between two kernels, in a chain of empty kernels.
  [[nodiscard]] gsched::duration gap() const;
  /// A place for stamps that are not read.
  [[nodiscard]] stamps* scratch() const;
  /// Host time of a launch with new parts, in ns: the selection alone, and the total.
  struct host_cost {
    double choose_ns = 0;
    double launch_ns = 0;
  };
  [[nodiscard]] host_cost time_host(std::size_t real_time, const share& beside);

private:
  struct state;
  std::unique_ptr<state> state_;
};

} // namespace padding

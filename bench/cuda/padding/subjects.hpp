// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/cuda/gpu.hpp>
#include <gsched/cuda/pad_table.hpp>
#include <gsched/preempt/colocate/candidate.hpp>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace padding {

/// When a real-time part began and ended, by the GPU's clock in nanoseconds: its first block's
/// start and its last block's end. In device memory, zero before it runs.
struct stamps {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
};

/// A function with its arguments, in one of the two roles.
struct subject {
  std::string function; ///< what it computes
  std::string variant;  ///< how: a tile, items or threads
  std::string shape;
  std::uint64_t bytes = 0; ///< that all its blocks move
  gsched::kernel_variant facts{};
  gsched::duration plain{}; ///< of a real-time one: its time as a kernel of its own

  [[nodiscard]] std::string name() const { return function + "<" + variant + ">(" + shape + ")"; }
};

enum class form {
  plain,  ///< a kernel of its own
  proxy,  ///< a kernel of the family without guests
  pointer ///< a kernel that calls it by a function pointer
};

/// Blocks [first, first + blocks) of a guest.
struct share {
  std::size_t guest = 0;
  std::uint32_t first = 0;
  std::uint32_t blocks = 0;
};

/// Real-time kernels and guests of a family of network functions, measured on the current GPU.
class subjects {
public:
  explicit subjects(const gsched::cuda::gpu& on, bool few);
  ~subjects();

  [[nodiscard]] const std::vector<subject>& real_time() const;
  [[nodiscard]] const std::vector<subject>& guests() const;

  using after = std::span<const cudaGraphNode_t>;
  [[nodiscard]] cudaGraphNode_t add(cudaGraph_t g, after a, std::size_t real_time, form how,
                                    stamps* to) const;
  [[nodiscard]] cudaGraphNode_t add_padded(cudaGraph_t g, after a, std::size_t real_time,
                                           std::span<const share> beside, stamps* to) const;
  /// A guest as a plain kernel; blocks of it without a real-time part.
  [[nodiscard]] cudaGraphNode_t add_plain_guest(cudaGraph_t g, after a, std::size_t guest) const;
  [[nodiscard]] cudaGraphNode_t add_rest(cudaGraph_t g, after a, const share& of) const;

  /// How they would be launched together.
  [[nodiscard]] gsched::cuda::pad_launch launch_of(std::size_t real_time,
                                                   std::span<const share> beside) const;
  [[nodiscard]] const gsched::cuda::pad_table& table() const;
  /// From one kernel to the next, in a chain of kernels that do nothing.
  [[nodiscard]] gsched::duration gap() const;
  /// Where stamps go that nobody reads.
  [[nodiscard]] stamps* scratch() const;
  /// Host time of a launch with new parts, in ns: the choice alone, and all of it.
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

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/preemption.hpp>
#include <gsched/cuda/report.hpp>

#include <cstdint>
#include <span>

namespace gsched::cuda {

/// A kernel that holds its blocks for a time and does nothing else. It declares how many registers
/// a thread gets, and takes (report, preemption, cycles, saved, never).
struct stand_in_kernel {
  const void* function = nullptr; ///< as the runtime knows it
  std::uint32_t registers = 0;    ///< the most that its compiler may have used
};

/// The arguments of one, in place while a node is made of them.
struct stand_in_arguments {
  report to{};
  preemption may{};
  std::uint64_t cycles = 0;       ///< of the SM's clock, that a block stays
  std::uint64_t* saved = nullptr; ///< those that each block has left; null: it has no checkpoints
  std::uint32_t* never = nullptr; ///< null; what is done if it is not keeps the registers in use

  void* pointers[5] = {&to, &may, &cycles, &saved, &never};

  stand_in_arguments() = default;
  stand_in_arguments(const stand_in_arguments&) = delete;
  stand_in_arguments& operator=(const stand_in_arguments&) = delete;
};

/// One for each number of registers in which an SM gives them out, 32 to 255, rising. Fewer than 32
/// never limit how many blocks an SM holds.
[[nodiscard]] std::span<const stand_in_kernel> stand_in_kernels() noexcept;

} // namespace gsched::cuda

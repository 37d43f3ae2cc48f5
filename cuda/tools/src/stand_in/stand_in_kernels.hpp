// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/notify/report.hpp>
#include <gsched/cuda/preempt/preemption.hpp>

#include <cstdint>
#include <span>

namespace gsched::cuda {

/// A kernel that keeps its blocks busy for a time and does nothing else. It has a declared number
/// of registers and takes (report, preemption, cycles, saved, never).
struct stand_in_kernel {
  const void* function = nullptr; ///< the runtime's handle
  std::uint32_t registers = 0;    ///< upper bound for the compiler
};

/// The arguments of a stand-in kernel; must outlive the creation of its node.
struct stand_in_arguments {
  report to{};
  preemption preempt{};
  std::uint64_t cycles = 0;       ///< busy time of a block, in cycles of the SM's clock
  std::uint64_t* saved = nullptr; ///< remaining cycles of each block; null: no checkpoints
  std::uint32_t* never = nullptr; ///< always null; the code behind it keeps the registers in use

  void* pointers[5] = {&to, &preempt, &cycles, &saved, &never};

  stand_in_arguments() = default;
  stand_in_arguments(const stand_in_arguments&) = delete;
  stand_in_arguments& operator=(const stand_in_arguments&) = delete;
};

/// One kernel for each number of registers that an SM can allocate, 32 to 255, rising. Fewer than
/// 32 never limit the number of blocks on an SM.
[[nodiscard]] std::span<const stand_in_kernel> stand_in_kernels() noexcept;

} // namespace gsched::cuda

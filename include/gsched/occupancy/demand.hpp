// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>

#include <cstdint>
#include <type_traits>

namespace gsched {

/// What one kernel launch asks of the SMs: how many blocks, and what each takes from its SM.
///
/// Units    each resource is for one block and as the hardware gives it out: whole warps, registers
///          in units of allocation, shared memory with the system's share.
struct kernel_demand {
  std::uint64_t blocks = 0;            ///< zero: uses no SM (a copy)
  std::uint32_t max_blocks_per_sm = 0; ///< alone on an SM; zero if and only if blocks is
  std::uint32_t threads = 0;
  std::uint32_t registers = 0;
  std::uint32_t shared_bytes = 0;

  bool operator==(const kernel_demand&) const noexcept = default;
};

/// What a segment asks of the GPU. Its operations run one after another, so at any time it asks
/// for one kernel's blocks: `widest` says the most, `fill` the mean over its time.
///
/// Units    fill and peak are shares of all SMs, from 0 to 1; time is alone on those SMs.
struct footprint {
  duration time{};
  double fill = 0;          ///< time-weighted mean over the operations
  double peak = 0;          ///< of the widest kernel
  std::uint64_t blocks = 0; ///< of all kernels together: as many starts can be reported
  std::uint64_t words = 0;  ///< notifications of all kernels together, for flow control
  kernel_demand widest{};   ///< the kernel with the largest fill
};

static_assert(std::is_trivially_copyable_v<footprint> && sizeof(footprint) <= 64);

} // namespace gsched

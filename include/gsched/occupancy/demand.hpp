// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>

#include <cstdint>
#include <type_traits>

namespace gsched {

/// The demand of one kernel launch: its number of blocks, and the resources of an SM that each
/// takes.
///
/// Units    resources are those of one block, as the hardware allocates them: whole warps,
///          registers in allocation units, shared memory with the system's share.
struct kernel_demand {
  std::uint64_t blocks = 0;            ///< zero: it uses no SM (a copy)
  std::uint32_t max_blocks_per_sm = 0; ///< alone on an SM; zero if and only if blocks is zero
  std::uint32_t threads = 0;
  std::uint32_t registers = 0;
  std::uint32_t shared_bytes = 0;

  bool operator==(const kernel_demand&) const noexcept = default;
};

/// The demand of a segment. Its operations run one after another, so it demands the blocks of one
/// kernel at a time: `widest` is the maximum, `fill` the mean over its time.
///
/// Units    fill and peak are shares of all SMs, from 0 to 1; time is that of the segment alone on
///          those SMs.
struct footprint {
  duration time{};
  double fill = 0;          ///< time-weighted mean over the operations
  double peak = 0;          ///< fill of the widest kernel
  std::uint64_t blocks = 0; ///< of all kernels together; as many starts can be reported
  std::uint64_t words = 0;  ///< notifications of all kernels together, for flow control
  kernel_demand widest{};   ///< the kernel with the largest fill
};

static_assert(std::is_trivially_copyable_v<footprint> && sizeof(footprint) <= 64);

} // namespace gsched

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/launch.hpp>
#include <gsched/occupancy/calculator.hpp>
#include <gsched/occupancy/limits.hpp>

#include <algorithm>
#include <cstdint>

namespace gsched {

/// How an SM's memory is split between L1 and shared memory for a kernel without a preference. An
/// SM changes its split only when it holds no block.
///
/// Units    bytes of shared memory, one of architecture_limits::shared_splits
struct shared_split {
  std::uint32_t least = 0; ///< the kernel starts no block on an SM with a smaller one
  std::uint32_t set = 0;   ///< that it gives an SM which holds no block

  bool operator==(const shared_split&) const noexcept = default;
};

/// The splits of a kernel of which an SM holds up to `held` blocks.
///
/// Source   gsched.gpu.block_order on an H100 and an H200, by streams and by graphs, on kernels
///          without a preference (a carve-out of -1). `least` is the smallest split that holds all
///          blocks. `set` is larger for kernels of up to 512 threads: room for twice the blocks,
///          but no more than 132 KiB. Other GPUs are assumed to be alike.
/// Cost     O(splits).
[[nodiscard]] constexpr shared_split
shared_split_of(const architecture_limits& l, const launch_shape& s, std::uint32_t held) noexcept {
  constexpr std::uint32_t most_to_spare = 132 * 1024, without = 32 * 1024;
  constexpr std::uint64_t some_threads = 256, many_threads = 512;
  const std::uint64_t block = allocation_of(l, s).shared_bytes;
  const std::uint64_t threads = s.threads_per_block();
  shared_split split;
  split.least = split.set = detail::split_for(l, std::max<std::uint64_t>(1, held * block));
  std::uint32_t spare = 0;
  if (detail::shared_of(s) == 0) {
    if (threads <= some_threads) spare = detail::split_for(l, without);
  } else if (threads <= many_threads) {
    const std::uint64_t twice = std::min<std::uint64_t>(l.max_blocks, std::uint64_t{2} * held);
    spare = std::min(detail::split_for(l, twice * block), detail::split_for(l, most_to_spare));
  }
  split.set = std::max(split.set, spare);
  return split;
}

} // namespace gsched

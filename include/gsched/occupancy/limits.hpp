// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace gsched {

/// What one SM of a compute capability holds, and in which units it gives it out.
struct architecture_limits {
  std::uint32_t major = 0;
  std::uint32_t minor = 0;
  std::uint32_t max_threads = 0; ///< resident on an SM
  std::uint32_t max_warps = 0;
  std::uint32_t max_blocks = 0;
  std::uint32_t max_threads_per_block = 1024;
  std::uint32_t registers = 0;
  std::uint32_t register_unit = 0; ///< registers are given to a warp in multiples of this
  std::uint32_t max_registers_per_thread = 255;
  std::uint32_t warp_unit = 0; ///< warps of a block are rounded up to this for registers
  std::uint32_t shared_bytes = 0; ///< the most that the configurable split gives an SM
  std::uint32_t shared_unit = 0;
  std::uint32_t reserved_shared_bytes = 0; ///< the system's share of each block
  std::uint32_t max_shared_per_block = 0;  ///< opt-in limit
  std::uint32_t max_cluster_blocks = 0;    ///< portable cluster size; 0: no clusters
};

} // namespace gsched

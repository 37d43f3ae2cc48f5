// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace block_order {

/// When a block ran, by the GPU's clock, and on which SM.
struct block_record {
  std::uint64_t start_ns = 0;
  std::uint64_t end_ns = 0;
  std::uint32_t sm = 0;
};

struct timed_arguments {
  std::uint64_t ns = 0;                 ///< that each block runs
  block_record* records = nullptr;      ///< one a block, in device memory
  std::uint32_t* has_started = nullptr; ///< if not null: set by the first block, in host memory
  std::uint32_t* never = nullptr;       ///< always null; code behind it keeps registers in use
};

/// A kernel of blocks that only take time. There are two, which may prefer different splits of L1
/// and shared memory, each with few registers or with many_registers a thread.
inline constexpr unsigned many_registers = 128;
[[nodiscard]] const void* timed_kernel(bool second, bool many) noexcept;

} // namespace block_order

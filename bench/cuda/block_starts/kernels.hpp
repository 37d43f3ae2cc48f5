// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace block_starts {

/// Each block spins for so many cycles, then copies so many rows of 16 bytes a thread within L2.
[[nodiscard]] const void* short_blocks() noexcept;

/// Its parameters; `from` and `to` have `mask` + 1 elements of 16 bytes each, a power of two.
struct short_arguments {
  std::uint64_t cycles = 0;
  std::uint32_t rows = 0;
  std::uint32_t mask = 0;
  const void* from = nullptr;
  void* to = nullptr;
};

} // namespace block_starts

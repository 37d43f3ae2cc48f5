// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace standing {

/// Pinned words through which the host holds a graph at a gate of its choice.
struct hold_line {
  std::uint32_t hold = 0;         ///< 0: gates pass; otherwise gates from number hold - 1 on hold
  std::uint32_t standing[2] = {}; ///< 0, or the number + 1 of a gate that holds
};

/// Pinned words of the kernel that releases wait nodes on device memory.
struct release_line {
  std::uint32_t open = 0;  ///< written by the host: the kernel clears the device words and ends
  std::uint32_t ready = 0; ///< written by the kernel: it runs
};

/// By the GPU's clock: the limit of a kernel's wait for the host.
inline constexpr std::uint64_t longest_wait_ns = 6'000'000'000;

/// Kernels by address, for graphs. Parameters in their order:
struct kernels {
  const void* spin;             ///< (std::uint64_t cycles): each block runs for that long
  const void* gate;             ///< (hold_line*, std::uint32_t number), one thread
  const void* mark;             ///< (std::uint32_t* word): stores 1
  const void* set_words;        ///< (std::uint32_t* to, std::uint32_t count): stores 0
  const void* release;          ///< (release_line*, std::uint32_t* words, std::uint32_t count)
  const void* cooperative_mark; ///< (std::uint32_t* word): synchronizes the grid, stores 1
  /// (std::uint32_t* word, std::uint32_t* count): each block runs for 20 us; the last one stores 1.
  /// `count` is in device memory and 0 before.
  const void* timed_mark;
  const void* unused[2]; ///< (): never launched, so the driver has not loaded them
};
[[nodiscard]] kernels all_kernels() noexcept;

} // namespace standing

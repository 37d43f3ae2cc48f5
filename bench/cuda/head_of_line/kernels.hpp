// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

namespace head_of_line {

/// Parameters of the kernel: a block takes that many cycles; then, if there is a word, it
/// increments the count and stores it where the host polls.
struct hold_arguments {
  long long cycles = 0;
  unsigned long long* ended = nullptr; ///< the count, in device memory
  unsigned long long* word = nullptr;  ///< in pinned memory
};

inline constexpr unsigned block_threads = 128;

/// For graphs; takes the three arguments in their order.
[[nodiscard]] const void* hold_kernel() noexcept;

[[nodiscard]] cudaError_t launch_hold(const hold_arguments& a, cudaStream_t on) noexcept;

} // namespace head_of_line

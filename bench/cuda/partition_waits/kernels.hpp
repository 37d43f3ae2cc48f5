// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace partition_waits {

/// A kernel of so many cycles, or one that also has so many bytes of local memory for each thread:
/// 0, 16, 1,024 or 16,384.
[[nodiscard]] const void* spin_kernel(std::uint32_t local_bytes) noexcept;

/// Its parameters; `never` is null.
struct spin_arguments {
  std::uint64_t cycles = 0;
  std::uint32_t* never = nullptr;
};

/// Sets words to 0: spin_arguments' place in a graph of sets as kernels.
[[nodiscard]] const void* set_kernel() noexcept;

struct set_arguments {
  std::uint32_t* to = nullptr;
  std::uint64_t words = 0;
};

} // namespace partition_waits

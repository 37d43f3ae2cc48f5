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

/// What a kernel reads again and again: each thread of one warp a block follows a chain of words.
enum class chain_of { nothing, shared_memory, constants, l1, l2 };

struct chain_arguments {
  chain_of what = chain_of::nothing;
  std::uint32_t steps = 0;
  const std::uint32_t* next = nullptr; ///< chain_words words
};

inline constexpr std::uint32_t chain_words = 1024; ///< 4 KB

/// The word after word i of a chain through all of them.
[[nodiscard]] constexpr std::uint32_t after(std::uint32_t i) noexcept {
  return (i * 33 + 32) % chain_words;
}

/// A kernel with chain_arguments.
[[nodiscard]] const void* chains() noexcept;

/// Writes the chain of constants. Throws gsched::error with CUDA's message.
void fill_constants();

} // namespace block_starts

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/preempt/colocate/candidate.hpp>

#include <cstdint>
#include <random>
#include <vector>

namespace gsched::test {

inline std::uint32_t draw(std::mt19937_64& random, std::uint32_t least, std::uint32_t most) {
  return least + static_cast<std::uint32_t>(random() % (most - least + 1));
}

/// A kernel for a small number of SMs: few values, so that ties are common.
inline kernel_variant small_variant(std::mt19937_64& random, std::uint32_t most_blocks = 12,
                                    std::uint32_t most_level = 3) {
  kernel_variant k;
  k.blocks = draw(random, 1, most_blocks);
  k.level = draw(random, 1, most_level);
  k.block_time = duration{draw(random, 1, 6)};
  k.kernel_time = k.block_time + duration{draw(random, 0, 8)};
  k.registers_per_thread = 32 * draw(random, 1, 3);
  k.shared_bytes = 1024 * draw(random, 0, 2);
  k.threads_per_block = 64 * draw(random, 1, 3);
  return k;
}

inline std::vector<std::vector<kernel_variant>>
small_program(std::mt19937_64& random, std::uint32_t most_operations, std::uint32_t most_variants) {
  std::vector<std::vector<kernel_variant>> operations(draw(random, 1, most_operations));
  for (auto& of : operations) {
    const std::uint32_t n = draw(random, 1, most_variants);
    for (std::uint32_t i = 0; i < n; ++i) of.push_back(small_variant(random));
  }
  return operations;
}

} // namespace gsched::test

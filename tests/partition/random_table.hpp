// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/latency_table.hpp>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace gsched::testing {

/// Models with a fixed part, a part that scales with SMs and one with the batch; all of whole us.
[[nodiscard]] inline latency_table random_table(std::mt19937_64& random, std::size_t models,
                                                std::vector<std::uint32_t> sizes,
                                                std::uint32_t most_batch) {
  std::vector<latency_row> rows;
  for (std::size_t m = 0; m < models; ++m) {
    const std::uint64_t fixed = 1 + random() % 20;
    const std::uint64_t each = 1 + random() % 10;
    const std::uint64_t work = random() % 400;
    for (const std::uint32_t s : sizes)
      for (std::uint32_t b = 1; b <= most_batch; ++b)
        rows.push_back({"m" + std::to_string(m), b, sm_count{s},
                        std::chrono::microseconds{fixed + each * b + work * b / s}});
  }
  return latency_table(rows);
}

} // namespace gsched::testing

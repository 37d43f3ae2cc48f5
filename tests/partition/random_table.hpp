// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/latency_table.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace gsched::testing {

/// Latencies of a constant, a part for each request and a part that scales with SMs, in us. All
/// batches up to `most_batch` are measured; if it is 0, only some of those up to 16 are, and
/// with noise.
[[nodiscard]] inline latency_table random_table(std::mt19937_64& random, std::size_t models,
                                                std::vector<std::uint32_t> sizes,
                                                std::uint32_t most_batch) {
  std::vector<latency_row> rows;
  std::vector<std::uint32_t> batches{1, 2, 5, 11, 16};
  if (most_batch > 0) batches.resize(most_batch);
  if (most_batch > 0) std::iota(batches.begin(), batches.end(), 1u);
  for (std::size_t m = 0; m < models; ++m) {
    const std::uint64_t fixed = 1 + random() % 20;
    const std::uint64_t each = 1 + random() % 10;
    const std::uint64_t work = random() % 400;
    for (const std::uint32_t s : sizes)
      for (const std::uint32_t b : batches)
        rows.push_back({"m" + std::to_string(m), b, sm_count{s},
                        std::chrono::microseconds{fixed + each * b + work * b / s +
                                                  (most_batch == 0 ? random() % (20 * b) : 0)}});
  }
  return latency_table(rows);
}

} // namespace gsched::testing

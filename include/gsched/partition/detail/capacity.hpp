// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/partition/demand.hpp>
#include <gsched/partition/latency_table.hpp>

#include <cstddef>
#include <cstdint>

namespace gsched {

/// What one model can do alone on a partition.
struct capacity {
  double rate = 0;         ///< requests a second, the most within the SLO; 0: none
  std::uint32_t batch = 0; ///< with which
};

/// Batches follow each other without a gap: a request waits for one and takes its own, so twice a
/// batch's time is within the SLO. Between two measured batches the rate only rises or only falls,
/// so one of them has the most, or the largest batch that is within the SLO.
///
/// Source   Choi et al., USENIX ATC 2022, section 4.3, figure 8.
/// Cost     O((measured batches + log batch) x log rows).
[[nodiscard]] inline capacity capacity_of(const latency_table& t, std::size_t model, sm_count sms,
                                          duration slo, double factor = 1) noexcept {
  capacity most;
  if (sms < t.sizes(model).front()) return most;
  std::uint32_t within = 0;
  const auto in_time = [&](std::uint32_t b) {
    const duration l = planned_latency(t, model, b, sms, factor);
    if (2 * l > slo) return false;
    within = b;
    if (const double rate = b / to_s(l); rate > most.rate) most = {rate, b};
    return true;
  };
  for (const std::uint32_t b : t.batches(model)) {
    if (in_time(b)) continue;
    for (std::uint32_t low = within, high = b; high - low > 1;) { // in the last piece
      const std::uint32_t middle = low + (high - low) / 2;
      (in_time(middle) ? low : high) = middle;
    }
    break;
  }
  return most;
}

} // namespace gsched

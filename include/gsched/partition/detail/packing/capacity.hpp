// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/partition/latency_table.hpp>
#include <gsched/partition/model_demand.hpp>

#include <cstddef>
#include <cstdint>

namespace gsched::detail {

/// The throughput of one model alone on a partition.
struct capacity {
  double rate = 0;         ///< the highest rate within the SLO, requests a second; 0: none
  std::uint32_t batch = 0; ///< the batch size at that rate
};

/// The capacity of a partition of `sms` SMs for one model. Batches run back to back: a request
/// waits for the running batch and then for its own. So the SLO must cover two batches. Between two
/// measured batches the rate is monotonic, so the best batch is a measured one or the largest that
/// meets the SLO. `factor` is the slow-down.
///
/// Source   Choi et al., USENIX ATC 2022, section 4.3, figure 8.
/// Cost     O((measured batches + log batch) x log rows).
[[nodiscard]] inline capacity capacity_of(const latency_table& t, std::size_t model, sm_count sms,
                                          duration slo, double factor = 1) noexcept {
  capacity most;
  if (sms < t.sizes(model).front()) return most;
  std::uint32_t within = 0; // the largest batch known to meet the SLO
  const auto meets_slo = [&](std::uint32_t b) {
    const duration l = planned_latency(t, model, b, sms, factor);
    if (2 * l > slo) return false;
    within = b;
    if (const double rate = b / to_s(l); rate > most.rate) most = {rate, b};
    return true;
  };
  for (const std::uint32_t b : t.batches(model)) {
    if (meets_slo(b)) continue;
    for (std::uint32_t low = within, high = b; high - low > 1;) {
      const std::uint32_t middle = low + (high - low) / 2;
      (meets_slo(middle) ? low : high) = middle;
    }
    break;
  }
  return most;
}

/// The largest batch that takes no longer than `limit` alone on a partition; 0: none.
///
/// Cost     O(log batch x log rows).
[[nodiscard]] inline std::uint32_t largest_batch(const latency_table& t, std::size_t model,
                                                 sm_count sms, duration limit) noexcept {
  if (sms < t.sizes(model).front()) return 0;
  std::uint32_t low = 0, high = t.batches(model).back() + 1;
  while (high - low > 1) {
    const std::uint32_t middle = low + (high - low) / 2;
    (planned_latency(t, model, middle, sms) <= limit ? low : high) = middle;
  }
  return low;
}

} // namespace gsched::detail

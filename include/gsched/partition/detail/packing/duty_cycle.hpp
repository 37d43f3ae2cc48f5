// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/partition/latency_table.hpp>
#include <gsched/partition/model_demand.hpp>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace gsched::detail {

/// Time sharing of a partition: in each cycle every model runs one batch, one after the other. A
/// batch holds the requests that arrived in the cycle before.
struct duty_cycle {
  duration length{};
  std::vector<std::uint32_t> batches{}; ///< by demand: the most requests of a cycle
  double worst = 0;                     ///< the largest ratio of latency to SLO, at most 1
};

/// The most requests of a demand that arrive within a cycle, at least 1.
[[nodiscard]] inline std::uint32_t requests_within(double rate, duration cycle) noexcept {
  const double n = std::ceil(rate * to_s(cycle) * (1 - 4e-12)); // a cycle of k / rate gives k
  return std::max(1u, static_cast<std::uint32_t>(std::min(n, 4e9)));
}

/// The longest cycle in which at most n requests arrive.
[[nodiscard]] inline duration cycle_of(double rate, std::uint32_t n) noexcept {
  const double ns = std::min(n / rate * 1e9 * (1 + 1e-12), 1e18);
  return duration{static_cast<duration::rep>(ns)};
}

/// The duty cycle with the smallest worst ratio of latency to SLO for `demands` on `sms` SMs; empty
/// if no cycle meets all SLOs.
///
/// In the worst case a request just misses a batch: it waits for a whole cycle and then for its own
/// batch. So a cycle is at least as long as its batches together, and cycle plus batch is at most
/// the SLO, for each model. `factors` are the demands' slow-downs; empty: none.
///
/// Source   squishy bin packing: Shen et al., SOSP 2019, doi:10.1145/3341301.3359658, section 6.1;
///          Choi et al., USENIX ATC 2022, section 2.2.
/// Differs  exact: the batches change only at cycle lengths where one more request arrives. Between
///          two such lengths the shortest cycle is best, so the function tries each interval.
/// Errors   none. The caller owes: the demands passed check, and their rates are above 0.
/// Cost     O(n^2 x batch) for n demands and the largest batch of the table.
/// Threads  any.
[[nodiscard]] inline std::optional<duty_cycle>
find_duty_cycle(const latency_table& t, sm_count sms, std::span<const model_demand> demands,
                std::span<const double> factors = {}) {
  assert(factors.empty() || factors.size() == demands.size());
  std::vector<duration> ends; // of the intervals in which the batches stay constant
  for (const model_demand& d : demands) {
    if (sms < t.sizes(d.model).front()) return std::nullopt;
    for (std::uint32_t b = 1; b <= t.batches(d.model).back(); ++b) {
      const duration end = cycle_of(d.rate, b);
      ends.push_back(end);
      if (end > d.slo) break; // longer cycles miss the SLO
    }
  }
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());

  std::optional<duty_cycle> best;
  std::vector<std::uint32_t> batches(demands.size());
  std::vector<duration> times(demands.size());
  duration begin{};
  for (const duration end : ends) {
    duration all{};
    bool measured = true; // the table has a latency for each batch
    for (std::size_t i = 0; i < demands.size() && measured; ++i) {
      batches[i] = requests_within(demands[i].rate, end);
      measured = batches[i] <= t.batches(demands[i].model).back();
      if (measured)
        times[i] =
            planned_latency(t, demands[i].model, batches[i], sms, factors.empty() ? 1 : factors[i]);
      all += times[i];
    }
    if (!measured) break; // longer cycles have larger batches
    const duration length = std::max(begin + duration{1}, all);
    begin = end;
    if (length > end) continue;
    double worst = 0;
    for (std::size_t i = 0; i < demands.size(); ++i)
      worst = std::max(worst, static_cast<double>((length + times[i]).count()) /
                                  static_cast<double>(demands[i].slo.count()));
    if (worst <= 1 && (!best || worst < best->worst)) best = duty_cycle{length, batches, worst};
  }
  return best;
}

} // namespace gsched::detail

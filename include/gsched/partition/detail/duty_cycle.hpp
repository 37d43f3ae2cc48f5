// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/partition/demand.hpp>
#include <gsched/partition/latency_table.hpp>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace gsched {

/// How models share a partition in time: in each cycle one batch of every model runs, one after
/// the other, of the requests that came in the cycle before.
struct duty_cycle {
  duration length{};
  std::vector<std::uint32_t> batches{}; ///< by demand: the most that come in a cycle
  double worst = 0;                     ///< largest latency over SLO, at most 1
};

namespace detail {

/// Requests of one demand that come within a cycle.
[[nodiscard]] inline std::uint32_t coming(double rate, duration cycle) noexcept {
  const double n = std::ceil(rate * to_s(cycle) * (1 - 4e-12)); // of k/rate, k
  return std::max(1u, static_cast<std::uint32_t>(std::min(n, 4e9)));
}

/// The longest cycle in which no more than n requests come.
[[nodiscard]] inline duration cycle_of(double rate, std::uint32_t n) noexcept {
  const double ns = std::min(n / rate * 1e9 * (1 + 1e-12), 1e18);
  return duration{static_cast<duration::rep>(ns)};
}

} // namespace detail

/// The duty cycle in which demands share a partition of `sms` SMs and the latency that is nearest
/// to its SLO is farthest from it; none if there is no cycle in which all meet theirs.
///
/// A request may just have missed its batch: it waits for a whole cycle and then takes its batch's
/// time. So a cycle has to be as long as its batches together take, and with any model's own time
/// on top no longer than that model's SLO. `factors` say how many times as long each demand's
/// batches take beside others; none: as long as alone.
///
/// Source   squishy bin packing: Shen et al., SOSP 2019, doi:10.1145/3341301.3359658, section 6.1;
///          Choi et al., USENIX ATC 2022, section 2.2.
/// Differs  exact: batches change only where one more request of some model fits a cycle, and
///          between two such places the shortest cycle is best, so all of them are tried.
/// Errors   none; demands have been checked, and their rates are above 0.
/// Cost     O(n^2 x batch) for n demands and the largest batch of the table.
/// Threads  any.
[[nodiscard]] inline std::optional<duty_cycle>
find_duty_cycle(const latency_table& t, sm_count sms, std::span<const demand> demands,
                std::span<const double> factors = {}) {
  assert(factors.empty() || factors.size() == demands.size());
  std::vector<duration> ends; // of the ranges in which batches stay as they are
  for (const demand& d : demands) {
    if (sms < t.sizes(d.model).front()) return std::nullopt;
    for (std::uint32_t b = 1; b <= t.batches(d.model).back(); ++b) {
      const duration end = detail::cycle_of(d.rate, b);
      ends.push_back(end);
      if (end > d.slo) break; // no cycle is as long
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
    bool known = true;
    for (std::size_t i = 0; i < demands.size() && known; ++i) {
      batches[i] = detail::coming(demands[i].rate, end);
      known = batches[i] <= t.batches(demands[i].model).back();
      if (known)
        times[i] =
            planned_latency(t, demands[i].model, batches[i], sms, factors.empty() ? 1 : factors[i]);
      all += times[i];
    }
    if (!known) break; // and longer cycles have larger batches
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

} // namespace gsched

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/partition/demand.hpp>
#include <gsched/partition/latency_table.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

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

/// MINREQUIREDPARTITION: the smallest of `sizes`, which rise, on which a model does that rate
/// within its SLO; none: not even the largest.
[[nodiscard]] inline std::optional<sm_count> least_size(const latency_table& t, const demand& d,
                                                        std::span<const sm_count> sizes,
                                                        double factor = 1) noexcept {
  const auto at = std::partition_point(sizes.begin(), sizes.end(), [&](sm_count s) {
    return capacity_of(t, d.model, s, d.slo, factor).rate < d.rate; // rises with the size
  });
  if (at == sizes.end()) return std::nullopt;
  return *at;
}

/// MAXEFFICIENTPARTITION: the size at the knee of a model's rate over `sizes`, which rise: where
/// the curve, both ways scaled to 1, bends the most towards the flat. Where it nowhere does, as
/// with a straight line, the size with the most rate an SM, and of equals the smallest; none where
/// the model can do nothing.
///
/// Source   Choi et al., USENIX ATC 2022, section 4.3: the local maximum of the curvature.
[[nodiscard]] inline std::optional<sm_count> knee(const latency_table& t, std::size_t model,
                                                  duration slo, std::span<const sm_count> sizes) {
  if (sizes.empty()) return std::nullopt;
  const auto rate = [&](std::size_t i) { return capacity_of(t, model, sizes[i], slo).rate; };
  const double most_rate = rate(sizes.size() - 1);
  if (!(most_rate > 0)) return std::nullopt;
  const double most_sms = sizes.back().count();
  std::optional<sm_count> at;
  double most = 1e-9;
  double x0 = 0, y0 = 0; // with no SM there is no rate
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i) {
    const double x1 = sizes[i].count() / most_sms, y1 = rate(i) / most_rate;
    const double x2 = sizes[i + 1].count() / most_sms, y2 = rate(i + 1) / most_rate;
    const double before = (y1 - y0) / (x1 - x0), after = (y2 - y1) / (x2 - x1);
    const double slope = (y2 - y0) / (x2 - x0);
    const double bend = 2 * (before - after) / (x2 - x0) / std::pow(1 + slope * slope, 1.5);
    if (y1 > 0 && bend > most) {
      most = bend;
      at = sizes[i];
    }
    x0 = x1;
    y0 = y1;
  }
  if (at) return at;
  double best = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    if (const double each = rate(i) / sizes[i].count(); each > best * (1 + 1e-9)) {
      best = each;
      at = sizes[i];
    }
  return at;
}

} // namespace gsched

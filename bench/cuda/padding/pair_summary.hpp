// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "padding/pair.hpp"

#include "experiment.hpp"

#include <gsched/interference/error_summary.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace padding {

/// What a selection admits of the measured pairs, and what it costs the real-time kernels.
struct selection_summary {
  std::size_t pairs = 0; ///< admitted with at least one block
  double work_us = 0;    ///< of best-effort kernels, in all padded kernels together
  double gained = 0;     ///< mean of the same over the plain real-time kernel's time
  double part_mean = 0, part_p50 = 0, part_p95 = 0, part_max = 0; ///< over the plain form, percent
  double whole_p50 = 0, whole_p95 = 0;                            ///< of all parts, percent
  double best_mean = 0, best_p95 = 0, best_p99 = 0;               ///< over the faster form, percent
  std::size_t false_safe = 0;          ///< admitted, slower than the limit over the faster form
  std::size_t false_safe_of_proxy = 0; ///< the same over the proxy, of which the law speaks
  /// within the limit with all blocks that rules 1 and 2 allow, and yet admitted with fewer or none
  std::size_t false_unsafe = 0;
  std::size_t false_refused = 0; ///< those of them that are not admitted at all
};

/// Summarises the pairs of a selection that `admits` admits too, beside a limit of the real-time
/// kernel's slow-down. All rows of a real-time kernel and a co-runner have to be in `all`.
template <class Admits>
[[nodiscard]] selection_summary summary_of(std::span<const pair> all, selection by, double limit,
                                           Admits admits) {
  selection_summary s;
  std::vector<double> part, whole, best;
  std::map<std::pair<std::size_t, std::size_t>, std::uint32_t> chosen; // blocks
  for (const pair& p : all) {
    if (!p.of(by) || !admits(p)) continue;
    chosen[{p.real, p.corunner}] = p.blocks;
    part.push_back(p.part_percent());
    whole.push_back(p.whole_percent());
    best.push_back(p.of_best_percent());
    s.part_mean += part.back();
    s.best_mean += best.back();
    s.work_us += p.work_us;
    s.gained += p.work_us / p.alone.whole_us;
    s.false_safe += p.of_best() > limit ? 1u : 0u;
    s.false_safe_of_proxy += p.of_proxy() > limit ? 1u : 0u;
  }
  for (const pair& p : all) {
    if (!p.of(selection::needed) || p.of_best() > limit) continue;
    const auto found = chosen.find({p.real, p.corunner});
    const std::uint32_t blocks = found == chosen.end() ? 0 : found->second;
    s.false_unsafe += blocks < p.blocks ? 1u : 0u;
    s.false_refused += blocks == 0 ? 1u : 0u;
  }
  s.pairs = part.size();
  const double n = static_cast<double>(std::max<std::size_t>(s.pairs, 1));
  s.part_mean /= n;
  s.best_mean /= n;
  s.gained /= n;
  using experiment::quantile;
  s.part_p50 = quantile(part, 0.5);
  s.part_p95 = quantile(part, 0.95);
  s.part_max = quantile(part, 1);
  s.whole_p50 = quantile(whole, 0.5);
  s.whole_p95 = quantile(whole, 0.95);
  s.best_p95 = quantile(best, 0.95);
  s.best_p99 = quantile(best, 0.99);
  return s;
}

/// Errors of the predicted slow-downs of the pairs that have one and that `counts` counts.
struct prediction_errors {
  gsched::error_summary of_proxy{}; ///< of the measured slow-down over the proxy, as predicted
  gsched::error_summary of_best{};  ///< over the faster of proxy and plain kernel
};

template <class Counts>
[[nodiscard]] prediction_errors errors_of(std::span<const pair> all, Counts counts) {
  std::vector<double> proxy, best;
  for (const pair& p : all) {
    if (!p.predicted || !counts(p)) continue;
    proxy.push_back(gsched::relative_error(*p.predicted, p.of_proxy()));
    best.push_back(gsched::relative_error(*p.predicted, p.of_best()));
  }
  return {gsched::summary_of(std::move(proxy)), gsched::summary_of(std::move(best))};
}

} // namespace padding

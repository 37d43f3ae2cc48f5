// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace gsched {

/// Quantiles of the relative errors of predictions.
struct error_summary {
  std::size_t count = 0;
  double p50 = 0;
  double p90 = 0;
  double p95 = 0;
  double max = 0;
};

/// |predicted - measured| / measured.
[[nodiscard]] inline double relative_error(double predicted, double measured) noexcept {
  return std::abs(predicted - measured) / measured;
}

/// Summarises errors. Quantiles are interpolated between the two nearest ranks. All fields are 0 if
/// there are no errors.
///
/// Cost     O(n log n).
[[nodiscard]] inline error_summary summary_of(std::vector<double> errors) {
  error_summary s;
  s.count = errors.size();
  if (errors.empty()) return s;
  std::sort(errors.begin(), errors.end());
  const auto quantile = [&](double part) {
    const double at = part * static_cast<double>(errors.size() - 1);
    const auto below = static_cast<std::size_t>(at);
    const std::size_t above = std::min(below + 1, errors.size() - 1);
    return errors[below] + (errors[above] - errors[below]) * (at - static_cast<double>(below));
  };
  s.p50 = quantile(0.5);
  s.p90 = quantile(0.9);
  s.p95 = quantile(0.95);
  s.max = errors.back();
  return s;
}

} // namespace gsched

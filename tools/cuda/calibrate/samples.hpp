// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace calibrate {

/// The statistics of one figure over all rounds.
struct figure {
  double median = 0;
  double spread = 0; ///< interquartile range
  std::size_t n = 0;
};

/// By nearest rank; zeros without values.
[[nodiscard]] inline figure figure_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto at = [&](double q) {
    return values[static_cast<std::size_t>(
        std::lround(q * static_cast<double>(values.size() - 1)))];
  };
  return {at(0.5), at(0.75) - at(0.25), values.size()};
}

/// The measurements of all rounds, by name.
class samples {
public:
  void add(const std::string& what, double value) { values_[what].push_back(value); }
  [[nodiscard]] figure of(const std::string& what) const {
    const auto found = values_.find(what);
    return found == values_.end() ? figure{} : figure_of(found->second);
  }
  [[nodiscard]] bool has(const std::string& what) const { return values_.count(what) > 0; }

private:
  std::map<std::string, std::vector<double>> values_;
};

/// y = at_zero + slope x, by weighted least squares with weights 1 / x: the noise of a long graph
/// grows with its length and must not dominate.
struct line_fit {
  double at_zero = 0;
  double slope = 0;
};

[[nodiscard]] inline line_fit fit(std::span<const double> x, std::span<const double> y) {
  double w = 0, wx = 0, wy = 0, wxx = 0, wxy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double k = 1 / std::max(x[i], 1.0);
    w += k;
    wx += k * x[i];
    wy += k * y[i];
    wxx += k * x[i] * x[i];
    wxy += k * x[i] * y[i];
  }
  const double d = w * wxx - wx * wx;
  if (!(d > 0)) return {w > 0 ? wy / w : 0, 0};
  const double slope = (w * wxy - wx * wy) / d;
  return {(wy - slope * wx) / w, slope};
}

} // namespace calibrate

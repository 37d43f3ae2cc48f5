// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace gsched::cuda {

/// Times of the replays of one graph, in microseconds.
struct replay_times {
  std::size_t count = 0;
  double mean = 0;
  double p10 = 0;
  double median = 0;
  double p90 = 0;

  /// From p10 to p90, relative to the median; 0 without replays.
  [[nodiscard]] double spread() const noexcept { return median > 0 ? (p90 - p10) / median : 0; }
};

/// Percentiles by the nearest of the sorted times; all 0 without times.
/// Cost     O(n log n).
[[nodiscard]] inline replay_times summarize(std::vector<double> us) {
  replay_times t;
  t.count = us.size();
  if (us.empty()) return t;
  std::sort(us.begin(), us.end());
  for (const double x : us) t.mean += x / static_cast<double>(us.size());
  const auto at = [&](double q) {
    return us[static_cast<std::size_t>(std::lround(q * static_cast<double>(us.size() - 1)))];
  };
  t.p10 = at(0.1);
  t.median = at(0.5);
  t.p90 = at(0.9);
  return t;
}

} // namespace gsched::cuda

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>

namespace gsched {

/// Mean and standard deviation of recent values.
///
/// Cost     O(1) each; three numbers of state.
/// Threads  a value.
class latest_mean {
public:
  /// Adds a value. Once `remembered` values were added, older values lose weight with each new one.
  void learn(double value, double remembered) noexcept {
    seen_ = std::min(seen_ + 1, remembered);
    const double off = value - mean_;
    mean_ += off / seen_;
    variance_ += (off * (value - mean_) - variance_) / seen_;
  }
  /// The number of values that carry weight, at most `remembered`.
  [[nodiscard]] double seen() const noexcept { return seen_; }
  [[nodiscard]] double mean() const noexcept { return mean_; }
  [[nodiscard]] double deviation() const noexcept { return std::sqrt(std::max(0.0, variance_)); }

private:
  double seen_ = 0;
  double mean_ = 0;
  double variance_ = 0;
};

} // namespace gsched

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>

namespace gsched {

/// A regression line through recent (cause, effect) pairs. It gives the mean effect at another mean
/// of the cause than the observed one, and the spread of the effects around the line.
///
/// Source   weighted least squares; control variates (Lavenberg & Welch, Management Science 27(3),
///          1981, doi:10.1287/mnsc.27.3.322).
/// Cost     O(1) each; six numbers of state.
/// Threads  a value.
class latest_line {
public:
  /// Adds a pair. Once `remembered` pairs were added, older pairs lose weight with each new one.
  void learn(double cause, double effect, double remembered) noexcept {
    seen_ = std::min(seen_ + 1, remembered);
    const double part = 1 / seen_;
    const double x = cause - cause_;
    const double y = effect - effect_;
    cause_ += x * part;
    effect_ += y * part;
    causes_ += (x * (cause - cause_) - causes_) * part;
    both_ += (x * (effect - effect_) - both_) * part;
    effects_ += (y * (effect - effect_) - effects_) * part;
  }
  /// The number of pairs that carry weight, at most `remembered`.
  [[nodiscard]] double seen() const noexcept { return seen_; }
  [[nodiscard]] double mean_cause() const noexcept { return cause_; }
  [[nodiscard]] double cause_variance() const noexcept { return std::max(0.0, causes_); }

  /// The change of the effect for one unit of the cause; 0 while the pairs do not determine it.
  [[nodiscard]] double slope() const noexcept {
    return seen_ >= 4 && causes_ > 0 ? both_ / causes_ : 0;
  }
  /// The mean effect at that mean of the cause.
  [[nodiscard]] double mean_at(double cause) const noexcept {
    return effect_ + slope() * (cause - cause_);
  }
  /// The standard deviation of the effects around the line.
  [[nodiscard]] double off_line() const noexcept {
    const double rest = effects_ - slope() * both_;
    return std::sqrt(std::max(0.0, rest) * seen_ / std::max(1.0, seen_ - 2));
  }

private:
  double seen_ = 0;
  double cause_ = 0, effect_ = 0;              ///< means
  double causes_ = 0, effects_ = 0, both_ = 0; ///< variances and covariance
};

} // namespace gsched

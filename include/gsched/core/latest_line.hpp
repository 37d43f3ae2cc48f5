// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>

namespace gsched {

/// A line through the latest pairs of a cause and an effect: the effect's mean where the cause has
/// another mean than in these pairs, and how far effects lie off the line.
///
/// Source   weighted least squares; control variates (Lavenberg & Welch, Management Science 27(3),
///          1981, doi:10.1287/mnsc.27.3.322).
/// Cost     O(1) each; a value of six numbers.
class latest_line {
public:
  /// `remembered`: older pairs than about so many count less and less.
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
  /// Pairs that count, at most `remembered`.
  [[nodiscard]] double seen() const noexcept { return seen_; }
  [[nodiscard]] double mean_cause() const noexcept { return cause_; }
  [[nodiscard]] double cause_variance() const noexcept { return std::max(0.0, causes_); }

  /// More effect for more of the cause; 0 where the pairs do not tell.
  [[nodiscard]] double slope() const noexcept {
    return seen_ >= 4 && causes_ > 0 ? both_ / causes_ : 0;
  }
  /// Of the effect, where the mean of the cause is that.
  [[nodiscard]] double mean_at(double cause) const noexcept {
    return effect_ + slope() * (cause - cause_);
  }
  /// Standard deviation of the effects from the line.
  [[nodiscard]] double off_line() const noexcept {
    const double rest = effects_ - slope() * both_;
    return std::sqrt(std::max(0.0, rest) * seen_ / std::max(1.0, seen_ - 2));
  }

private:
  double seen_ = 0;
  double cause_ = 0, effect_ = 0;              ///< means
  double causes_ = 0, effects_ = 0, both_ = 0; ///< variances, covariance
};

} // namespace gsched

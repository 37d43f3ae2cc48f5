// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

namespace gsched {

/// A factor of 1 or more that rises at once on evidence and falls back slowly. If it has to rise
/// again after it fell, it fell too far: from then on it falls half as fast. So a cause that shows
/// only while the factor is low makes it swing less and less often.
///
/// Threads  a value.
class learned_factor {
public:
  /// `most` bounds the factor; `fall` is the part of the way down that one call of fall_to takes.
  explicit learned_factor(double most = 1, double fall = 1) noexcept
      : most_(std::max(most, 1.0)), fall_(fall) {}

  [[nodiscard]] double value() const noexcept { return value_; }
  [[nodiscard]] double most() const noexcept { return most_; }
  /// Lowers the factor to at most x, at once; x is 1 or more.
  void bound(double x) noexcept { value_ = std::min(value_, x); }

  /// Returns true if the factor changed.
  bool rise_to(double x) noexcept {
    x = std::min(x, most_);
    if (!(x > value_)) return false;
    if (has_fallen_) fall_ /= 2;
    has_fallen_ = false;
    value_ = x;
    return true;
  }
  /// Divides the factor by what has another explanation now; it stays 1 or more.
  void explain(double by) noexcept { value_ = std::max(1.0, value_ / std::max(by, 1.0)); }
  bool fall_to(double x) noexcept {
    x = std::max(x, 1.0);
    if (!(x < value_)) return false;
    value_ -= (value_ - x) * fall_;
    if (value_ - x < 1e-3) value_ = x;
    has_fallen_ = true;
    return true;
  }

private:
  double most_, fall_;
  double value_ = 1;
  bool has_fallen_ = false; ///< since the last rise
};

} // namespace gsched

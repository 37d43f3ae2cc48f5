// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

namespace gsched {

/// How fast the tail of a distribution falls: where P(X > x) is in proportion to exp(-rate x) for
/// x > 0, whatever part of the values is 0, E[X^2] / 2 E[X] is 1 / rate. Of other distributions the
/// large values count most.
///
/// Cost     O(1). Threads  one owner. Depends on the values alone.
class tail_decay {
public:
  static constexpr double remembered = 4096; ///< values

  /// Not below 0.
  void learn(double x) noexcept {
    seen_ = std::min(seen_ + 1, remembered);
    mean_ += (x - mean_) / seen_;
    square_ += (x * x - square_) / seen_;
  }
  /// 1 / rate; 0 while all values were 0.
  [[nodiscard]] double mean_excess() const noexcept {
    return mean_ > 0 ? square_ / (2 * mean_) : 0;
  }
  [[nodiscard]] double seen() const noexcept { return seen_; }

private:
  double seen_ = 0;
  double mean_ = 0;
  double square_ = 0;
};

} // namespace gsched

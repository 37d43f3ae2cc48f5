// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/latest_mean.hpp>

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
    values_.learn(x, remembered);
    squares_.learn(x * x, remembered);
  }
  /// 1 / rate; 0 while all values were 0.
  [[nodiscard]] double mean_excess() const noexcept {
    return values_.mean() > 0 ? squares_.mean() / (2 * values_.mean()) : 0;
  }
  [[nodiscard]] double seen() const noexcept { return values_.seen(); }

private:
  latest_mean values_, squares_;
};

} // namespace gsched

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/latest_mean.hpp>

namespace gsched {

/// How fast the tail of a distribution falls: where P(X > x) is in proportion to exp(-rate x) for
/// x > 0, whatever part of the values is 0, E[X^(k+1)] / (k+1) E[X^k] is 1 / rate for every k. With
/// k = 3, as here, the large values of other distributions count most; with k = 1 their body does.
///
/// Cost     O(1). Threads  one owner. Depends on the values alone.
class tail_decay {
public:
  static constexpr double remembered = 4096; ///< values

  /// Not below 0.
  void learn(double x) noexcept {
    third_.learn(x * x * x, remembered);
    fourth_.learn(x * x * x * x, remembered);
  }
  /// 1 / rate; 0 while all values were 0.
  [[nodiscard]] double mean_excess() const noexcept {
    return third_.mean() > 0 ? fourth_.mean() / (4 * third_.mean()) : 0;
  }
  [[nodiscard]] double seen() const noexcept { return third_.seen(); }

private:
  latest_mean third_, fourth_; ///< powers of the values
};

} // namespace gsched

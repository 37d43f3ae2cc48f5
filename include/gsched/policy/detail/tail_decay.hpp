// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/latest_mean.hpp>

namespace gsched {

/// The decay rate of the tail of a distribution. If P(X > x) is proportional to exp(-rate x) for x
/// > 0, whatever fraction of the values is 0, then E[X^(k+1)] / ((k+1) E[X^k]) is 1 / rate for
/// every k. With k = 3, as here, the large values of other distributions dominate; with k = 1 their
/// body does.
///
/// Cost     O(1).
/// Threads  one owner. The result depends on the values alone.
class tail_decay {
public:
  static constexpr double remembered = 4096; ///< number of values

  /// x is at least 0.
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

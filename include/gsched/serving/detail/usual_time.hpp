// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>

#include <algorithm>
#include <cmath>

namespace gsched::detail {

/// Estimates the median of durations that come one after another: each one above the estimate
/// raises it by a twentieth, each one below lowers it by as much. The first one sets it. Rare long
/// ones do not change it, and it follows a median that changes by a factor of ten in some 50 of
/// them.
///
/// Source   Ma, Muthukrishnan, Sandler, arXiv 1407.1121, section 2, with steps by a factor.
/// Units    from 1 us on.
/// Cost     O(1), one number.
/// Threads  one owner.
class usual_time {
public:
  void observe(duration d) noexcept {
    const auto ns = static_cast<double>(d.count());
    if (ns_ == 0)
      ns_ = ns;
    else if (ns != ns_)
      ns_ = ns > ns_ ? std::min(ns, ns_ * step) : std::max(ns, ns_ / step);
    ns_ = std::max(ns_, least);
  }
  /// The estimate, or the longest duration if none was observed.
  [[nodiscard]] duration value() const noexcept {
    return ns_ == 0 ? duration::max() : duration{std::llround(ns_)};
  }

private:
  static constexpr double step = 1.05;
  static constexpr double least = 1000;
  double ns_ = 0;
};

} // namespace gsched::detail

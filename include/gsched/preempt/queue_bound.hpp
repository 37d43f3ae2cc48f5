// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>

#include <cmath>

namespace gsched {

/// How much device time to have queued ahead of a device that cannot give it back. With b queued, a
/// unit of work costs c/b in cuts, and work that comes at a rate h waits for about b/2, which costs
/// h*b/2: least at b = sqrt(2c/h). As the rate changes while b runs, it is taken over that time: b
/// is the longest with b * P(b) <= 2c, where P(b) is how much is expected to come within b.
///
/// Source   the square-root law of economic lots: Harris, Factory 10(2), 1913, reprinted as
///          doi:10.1287/opre.38.6.947.
/// Cost     O(log(most / least)) calls of expected; to within 1 in 16.
/// Threads  a value.
struct queue_bound {
  duration cut_cost{}; ///< of one more segment
  duration least{};
  duration most{};

  /// expected(duration) gives how many requests are expected within that time; it never falls.
  template <class F>
  [[nodiscard]] duration at(F expected) const noexcept {
    const double budget = 2 * static_cast<double>(cut_cost.count());
    const auto allowed = [&](duration b) {
      return static_cast<double>(b.count()) * expected(b) <= budget;
    };
    if (most <= least || !allowed(least)) return least;
    if (allowed(most)) return most;
    auto low = static_cast<double>(least.count());
    auto high = static_cast<double>(most.count());
    while (high > low * (1 + 1.0 / 16)) {
      const double middle = std::sqrt(low * high);
      (allowed(duration{static_cast<duration::rep>(middle)}) ? low : high) = middle;
    }
    return duration{static_cast<duration::rep>(low)};
  }
};

} // namespace gsched

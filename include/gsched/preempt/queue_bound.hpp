// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>

#include <cmath>

namespace gsched {

/// How much device time to queue on a device that cannot give it back. With b queued, a unit of
/// work costs c/b in cuts, and urgent work that arrives at rate h waits for about b/2, which costs
/// h*b/2: the sum is least at b = sqrt(2c/h). The rate can change while b runs, so it is taken over
/// that time: b is the longest time with b * P(b) <= 2c, where P(b) is the expected number of
/// arrivals within b.
///
/// Source   the square-root law of economic lot sizes: Harris, Factory 10(2), 1913, reprinted as
///          doi:10.1287/opre.38.6.947.
/// Cost     O(log(most / least)) calls of expected; to within 1 in 16.
/// Threads  a value.
struct queue_bound {
  duration cut_cost{}; ///< device time of one more segment
  duration least{};
  duration most{};

  /// expected(duration) returns the expected number of requests within that time; it never
  /// decreases.
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

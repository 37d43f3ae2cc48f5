// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/number_text.hpp>
#include <gsched/core/time.hpp>
#include <gsched/workload/random.hpp>

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gsched {

/// A request rate that holds from `at` until the next step.
struct rate_step {
  time_point at{};
  double rate = 0; ///< requests a second
  bool operator==(const rate_step&) const noexcept = default;
};
/// A request rate over time: steps at rising times. The rate is 0 before the first step.
using rate_curve = std::vector<rate_step>;

/// The relative error of an expected rate.
struct rate_error {
  double part = 0;      ///< relative error
  bool is_fixed = true; ///< true: always `part`; false: uniform on [-part, part], drawn repeatedly
  duration every = std::chrono::seconds{20}; ///< time between two draws
};

/// The actual rates where `expected` is expected with error `e`, up to time `end`.
///
/// Errors   bad_option: a fixed part that is not above -1, a drawn part outside [0, 1), and a time
///          between draws that is not above 0.
/// Cost     O(steps + draws). Equal arguments give equal curves.
[[nodiscard]] inline rate_curve with_error(const rate_curve& expected, const rate_error& e,
                                           time_point end, std::uint64_t seed) {
  if (!std::isfinite(e.part) || !(e.part > -1) || (!e.is_fixed && (e.part < 0 || e.part >= 1)))
    throw error(errc::bad_option, "rate error of " + number_text(e.part) + ", expected " +
                                      (e.is_fixed ? "above -1" : "0 to below 1"));
  if (!e.is_fixed && e.every <= duration::zero())
    throw error(errc::bad_option, "rate errors every " + std::to_string(e.every.count()) +
                                      " ns, expected more than 0");
  rate_curve actual = expected;
  if (e.is_fixed || e.part == 0) {
    for (rate_step& s : actual) s.rate *= 1 + e.part;
    return actual;
  }
  actual.clear();
  random_engine random(seed);
  std::size_t next = 0; // step of `expected`
  double rate = 0;
  for (time_point from{}; from < end; from = saturating_add(from, e.every)) {
    const double factor = 1 + e.part * (2 * draw_uniform(random) - 1);
    actual.push_back({from, rate * factor});
    for (; next < expected.size() && expected[next].at < saturating_add(from, e.every); ++next) {
      rate = expected[next].rate;
      if (actual.back().at == expected[next].at) actual.pop_back();
      actual.push_back({expected[next].at, rate * factor});
    }
  }
  return actual;
}

} // namespace gsched

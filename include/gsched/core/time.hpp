// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <ratio>

namespace gsched {

/// A clock without now(): its time points come from a device or a test, never from the host.
/// Virtual time starts at zero; on hardware the device chooses the origin.
struct timeline {
  using rep = std::int64_t;
  using period = std::nano;
  using duration = std::chrono::nanoseconds;
  using time_point = std::chrono::time_point<timeline>;
  static constexpr bool is_steady = true;
};

using duration = timeline::duration;
using time_point = timeline::time_point;

/// The deadline of a job without one. It sorts after every other deadline.
inline constexpr time_point no_deadline = time_point::max();

/// The slice of a job that runs until it ends.
inline constexpr duration run_to_completion = duration::max();

/// Microseconds, the unit of profiles and options, rounded to the nearest nanosecond.
[[nodiscard]] constexpr duration from_us(double us) noexcept {
  return duration{static_cast<duration::rep>(us * 1e3 + (us < 0 ? -0.5 : 0.5))};
}

[[nodiscard]] constexpr double to_us(duration d) noexcept {
  return static_cast<double>(d.count()) * 1e-3;
}

[[nodiscard]] constexpr double to_s(duration d) noexcept {
  return static_cast<double>(d.count()) * 1e-9;
}

/// a + b, or the largest value where the sum overflows.
[[nodiscard]] constexpr time_point saturating_add(time_point a, duration b) noexcept {
  if (b > duration::zero() && a > time_point::max() - b) return time_point::max();
  return a + b;
}
[[nodiscard]] constexpr duration saturating_add(duration a, duration b) noexcept {
  return saturating_add(time_point{a}, b).time_since_epoch();
}

} // namespace gsched

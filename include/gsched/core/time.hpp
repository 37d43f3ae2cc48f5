// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

namespace gsched {

/// The clock that has no now(): points on it come from a device or a test, never from the host.
/// In virtual time it starts at zero; on hardware its origin is the device's own.
struct timeline {
  using rep = std::int64_t;
  using period = std::nano;
  using duration = std::chrono::nanoseconds;
  using time_point = std::chrono::time_point<timeline>;
  static constexpr bool is_steady = true;
};

using duration = timeline::duration;
using time_point = timeline::time_point;

/// A deadline that never comes; it sorts after every other.
inline constexpr time_point no_deadline = time_point::max();

/// A slice without an end: the job keeps what it was given until it is done.
inline constexpr duration run_to_completion = duration::max();

/// Microseconds as profiles and people write them, to the nearest nanosecond.
[[nodiscard]] constexpr duration from_us(double us) noexcept {
  return duration{static_cast<duration::rep>(us * 1e3 + (us < 0 ? -0.5 : 0.5))};
}

[[nodiscard]] constexpr double to_us(duration d) noexcept {
  return static_cast<double>(d.count()) * 1e-3;
}

[[nodiscard]] constexpr double to_s(duration d) noexcept {
  return static_cast<double>(d.count()) * 1e-9;
}

/// a + b without overflow: stays at the largest value. For slices and deadlines.
[[nodiscard]] constexpr time_point saturating_add(time_point a, duration b) noexcept {
  if (b > duration::zero() && a > time_point::max() - b) return time_point::max();
  return a + b;
}
[[nodiscard]] constexpr duration saturating_add(duration a, duration b) noexcept {
  return saturating_add(time_point{a}, b).time_since_epoch();
}

} // namespace gsched

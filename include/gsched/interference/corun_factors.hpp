// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>

namespace gsched {

/// What is particular about a graph beside others on SMs of their own, over what its counters say:
/// two numbers, which a few measured pairs tell (`interference calibrate`). Both are 1 where they
/// are not known.
///
/// Source   sensitivity and pressure as in Mars et al., Bubble-Up, MICRO 2011,
///          doi:10.1145/2155620.2155650.
/// Differs  there a graph's sensitivity is a curve, measured beside a synthetic neighbour; here the
///          law of contention gives the curve, and the number scales it.
/// Units    pure numbers from `least` to `most`.
struct corun_factors {
  static constexpr double least = 0.1, most = 10;

  double sensitivity = 1; ///< times what a predicted slow-down of the graph exceeds 1 by
  double pressure = 1;    ///< times what its traffic and its starts cost graphs on other SMs

  bool operator==(const corun_factors&) const noexcept = default;

  /// The slow-down of a graph by its sensitivity: at least 1 if `predicted` is.
  [[nodiscard]] double slowed(double predicted) const noexcept {
    return 1 + sensitivity * (predicted - 1);
  }
  /// The product with others, within the bounds.
  [[nodiscard]] corun_factors times(const corun_factors& by) const noexcept {
    return {std::clamp(sensitivity * by.sensitivity, least, most),
            std::clamp(pressure * by.pressure, least, most)};
  }
  /// On the line to others, at a part of the way from 0 to 1, both ends exactly.
  [[nodiscard]] corun_factors to(const corun_factors& others, double part) const noexcept {
    const double at = std::clamp(part, 0.0, 1.0);
    return {std::lerp(sensitivity, others.sensitivity, at),
            std::lerp(pressure, others.pressure, at)};
  }
};

/// How far off learned corun_factors may be: the standard deviations of their logarithms.
struct corun_factor_errors {
  double sensitivity = 0, pressure = 0;
};

} // namespace gsched

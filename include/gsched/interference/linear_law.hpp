// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/interference/solo_metrics.hpp>

#include <algorithm>
#include <array>
#include <cstddef>

namespace gsched {

/// How many times as long a graph takes beside another, from what both take of L2 and DRAM when
/// alone: c1 l2_own + c2 l2_other + c3 dram_own + c4 dram_other + c5, and never below 1.
///
/// Source   Choi et al., USENIX ATC 2022, section 4.4.
/// Differs  beside several others, what they take is added up; the paper has one. It says neither
///          units nor what is predicted; here all are parts of 1, and it is the time beside over
///          the time alone. Graphs on SMs of their own and graphs that share them have coefficients
///          of their own.
struct linear_law {
  std::array<double, 5> c{0, 0, 0, 0, 1};

  bool operator==(const linear_law&) const noexcept = default;

  /// What the coefficients stand before.
  [[nodiscard]] static constexpr std::array<double, 5> terms(const bandwidth& own,
                                                             const bandwidth& other) noexcept {
    return {own.l2, other.l2, own.dram, other.dram, 1};
  }

  [[nodiscard]] constexpr double slowdown(const bandwidth& own,
                                          const bandwidth& other) const noexcept {
    const std::array<double, 5> x = terms(own, other);
    double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) sum += c[i] * x[i];
    return std::max(1.0, sum);
  }
};

} // namespace gsched

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/interference/solo_metrics.hpp>

#include <algorithm>
#include <array>
#include <cstddef>

namespace gsched {

/// Linear model of a graph's slow-down beside another graph, from the L2 and DRAM throughput that
/// both take when alone: c1 l2_own + c2 l2_other + c3 dram_own + c4 dram_other + c5, at least 1.
///
/// Source   Choi et al., USENIX ATC 2022, section 4.4.
/// Differs  the throughput of several neighbours adds up; the paper has one neighbour. The paper
///          names neither the units nor the predicted quantity; here throughputs are parts of the
///          device's capacity, and the prediction is latency beside over latency alone. Graphs on
///          disjoint SMs and graphs that share SMs have different coefficients.
struct linear_law {
  std::array<double, 5> c{0, 0, 0, 0, 1};

  bool operator==(const linear_law&) const noexcept = default;

  /// The terms that the coefficients multiply.
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

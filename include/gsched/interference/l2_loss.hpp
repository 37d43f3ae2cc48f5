// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>

namespace gsched {

/// What a graph loses when its neighbours push its data out of L2: how much longer a replay then
/// takes, as a part of its time alone. A slow stream of data on other SMs measures it
/// (`interference calibrate --probes`). No counter of the graph alone tells it, as most hits in L2
/// are on data that was used just before, which no neighbour pushes out in between. So where it is
/// not known, predictions kernel by kernel take the usual one if it is known what warps wait for,
/// and all others none.
///
/// Source   L2 pollution as in Elvinger et al., SoCC 2025, section 4.3,
///          doi:10.1145/3772052.3772270; how it was chosen: docs/research/l2_loss.md.
/// Units    parts of the time alone, 0 to `most`.
/// Order    beside() never falls with the neighbours' traffic.
struct l2_loss {
  static constexpr double most = 10;
  /// Neighbours that use this part of DRAM's throughput push out everything. It is what the stream
  /// uses that measures the loss.
  static constexpr double stream = 0.05;

  /// The median of 107 graphs on one H200.
  static constexpr double usual = 0.012;

  std::optional<double> part{};

  bool operator==(const l2_loss&) const noexcept = default;

  [[nodiscard]] bool known() const noexcept { return part.has_value(); }
  /// The loss beside neighbours that use `dram` of DRAM's throughput together. 0 where it is not
  /// known.
  [[nodiscard]] double beside(double dram) const noexcept {
    return part.value_or(0) * std::clamp(dram / stream, 0.0, 1.0);
  }
  /// On the line to another, at a part of the way from 0 to 1, both ends exactly.
  [[nodiscard]] l2_loss to(const l2_loss& other, double way) const noexcept {
    if (!known() && !other.known()) return {};
    return {std::lerp(part.value_or(0), other.part.value_or(0), std::clamp(way, 0.0, 1.0))};
  }
  /// From slow-downs beside a stream, as measured and as predicted without a loss.
  [[nodiscard]] static l2_loss of(double measured, double predicted) noexcept {
    return {std::clamp(measured - predicted, 0.0, most)};
  }
};

} // namespace gsched

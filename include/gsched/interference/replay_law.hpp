// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace gsched {

/// How kernels of graphs that are replayed beside others follow one another.
///
/// Units    gap_us, start_us: microseconds; tail: a pure number.
struct replay_law {
  double tail = 0.4;     ///< part of a block's time in which the last blocks of a kernel end
  double gap_us = 0.15;  ///< added to the gap between two kernels
  double start_us = 0.1; ///< lost by each other graph as a kernel starts

  bool operator==(const replay_law&) const noexcept = default;
};

} // namespace gsched

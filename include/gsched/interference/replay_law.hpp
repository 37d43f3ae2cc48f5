// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace gsched {

/// How kernels of graphs that are replayed beside others follow one another.
///
/// Units    microseconds
struct replay_law {
  double gap_us = 0.15;  ///< added to the gap between two kernels
  double start_us = 0.1; ///< lost by each other graph as a kernel starts

  bool operator==(const replay_law&) const noexcept = default;
};

} // namespace gsched

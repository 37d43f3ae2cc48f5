// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/sim/detail/sm_map.hpp>
#include <gsched/sim/detail/work_cost.hpp>

#include <cstdint>

namespace gsched::sim {

/// A kernel that the hardware queues have let go: it is placing its blocks or running them.
struct grid {
  // Of the caller, before the grid is admitted.
  work_cost cost{};
  sm_range where{};
  int priority = 0;
  std::uint32_t owner = 0; ///< who is told
  bool reports = false;    ///< its blocks are reported
  bool passes = false;     ///< blocks that start from now on find the flag set, and leave
  std::uint64_t base = 0;  ///< blocks that had ended before it: it runs those behind them

  // Of the scheduler, from begin() on.
  bool started = false;
  bool tried = false;      ///< it has taken what room there was for it
  bool moved = false;      ///< its blocks lie elsewhere than when they were looked at last
  bool settled = false;    ///< it has been counted among the neighbours
  bool left = false;       ///< some blocks have left and will
  std::uint64_t order = 0; ///< of arrival
  std::uint64_t unplaced = 0;
  std::uint64_t resident = 0;
  std::uint64_t finished = 0; ///< of its own: the first so many, whatever order they end in
  std::uint32_t oldest = sm_map::none; ///< cohorts, in the order in which they end
  std::uint32_t newest = sm_map::none;
  double progress = 0; ///< ns that its first blocks would have run, alone
  double speed = 1;    ///< of progress
  time_point updated{};
  time_point next_end = time_point::max();

  /// Nothing is placed. Member by member: g++ clears a struct of this size by a string instruction,
  /// which takes as long as all else here.
  void begin(std::uint64_t arrival, time_point now) noexcept {
    started = tried = moved = settled = left = false;
    order = arrival;
    unplaced = cost.blocks;
    resident = finished = 0;
    oldest = newest = sm_map::none;
    progress = 0;
    speed = 1;
    updated = now;
    next_end = time_point::max();
  }
};

} // namespace gsched::sim

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/sim/detail/blocks/sm_map.hpp>
#include <gsched/sim/detail/laws/work_cost.hpp>

#include <cstdint>

namespace gsched::sim {

/// A kernel that the hardware queues have issued: its blocks are being placed or run.
struct grid {
  // Set by the caller, before the grid is admitted.
  work_cost cost{};
  sm_range where{};
  int priority = 0;
  std::uint32_t owner = 0; ///< receives its events
  bool reports = false;    ///< its blocks are reported
  bool passes = false;     ///< blocks that start from now on find the flag set, and exit
  bool shares = false;     ///< other lanes may use some of its SMs
  /// blocks that had ended in an earlier run: this run has the blocks behind them
  std::uint64_t base = 0;

  // Set by the scheduler, from begin() on.
  bool started = false;
  bool tried = false;      ///< it has taken the capacity available to it
  bool moved = false;      ///< its blocks have moved since its SMs were counted
  bool counted = false;    ///< it is counted among the neighbours
  bool left = false;       ///< some blocks exited early or will
  std::uint64_t order = 0; ///< of its arrival
  std::uint64_t unplaced = 0;
  std::uint64_t resident = 0;
  std::uint64_t finished = 0; ///< its first `finished` blocks have ended, in whatever order
  std::uint32_t oldest = sm_map::none; ///< its cohorts, in the order of their ends
  std::uint32_t newest = sm_map::none;
  double progress = 0; ///< ns that its first blocks would have run alone
  double speed = 1;    ///< rate of progress
  time_point updated{};
  time_point next_end = time_point::max();

  /// Resets the placement. Member by member: g++ clears a struct of this size with a string
  /// instruction, which takes as long as everything else here.
  void begin(std::uint64_t arrival, time_point now) noexcept {
    started = tried = moved = counted = left = false;
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

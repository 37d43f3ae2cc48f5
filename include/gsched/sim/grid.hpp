// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/sim/sm_map.hpp>
#include <gsched/sim/work_cost.hpp>

#include <cstdint>

namespace gsched::sim {

/// A kernel that the hardware queues have let go: it is placing its blocks or running them.
struct grid {
  work_cost cost{};
  sm_range where{};
  int priority = 0;
  std::uint32_t owner = 0; ///< of the caller: who is told
  bool reports = false;    ///< of the caller: its blocks are reported

  bool started = false;
  bool tried = false;      ///< it has taken what room there was for it
  bool moved = false;      ///< its blocks lie elsewhere than when they were looked at last
  bool settled = false;    ///< it has been counted among the neighbours
  std::uint64_t order = 0; ///< of arrival
  std::uint64_t unplaced = 0;
  std::uint64_t resident = 0;
  std::uint64_t base = 0;     ///< blocks that had ended before it: it runs those behind them
  std::uint64_t finished = 0; ///< of its own: the first so many, whatever order they end in
  bool left = false;          ///< some have left and will
  bool passes = false;        ///< blocks that start from now on find the flag set, and leave
  std::uint32_t oldest = sm_map::none; ///< cohorts, in the order in which they end
  std::uint32_t newest = sm_map::none;
  double progress = 0; ///< ns that its first blocks would have run, alone
  double speed = 1;    ///< of progress
  time_point updated{};
  time_point next_end = time_point::max();
};

} // namespace gsched::sim

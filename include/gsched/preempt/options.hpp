// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/inline_vector.hpp>
#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/device/device.hpp>

#include <cstdint>

namespace gsched {

/// How a dispatcher keeps best-effort work out of the way of real-time work. Needs a policy that
/// serves real-time jobs first, such as priority<A, B>.
///
/// Source   Han et al., ACM TOCS 44(1), 2025, sections 3 to 5, doi:10.1145/3768622.
struct preemption_options {
  /// For real-time jobs alone; 0: both classes share all lanes, and the rest of this is not used.
  std::uint32_t real_time_lanes = 0;
  lane_options real_time_lane{.priority = 1};
  /// Device time of their segments. All of a program at once: no other work is to have the GPU
  /// meanwhile, but for real-time jobs that are more urgent.
  duration real_time_quantum = run_to_completion;
  /// While real-time jobs are active, best-effort lanes yield (on a preemptive_device) and nothing
  /// is submitted to them. False: only the lanes' priorities tell the classes apart.
  bool yields = true;
  /// Part of the time, 0 to below 1, that best-effort jobs get even if real-time jobs never end: in
  /// each window they are let on for that part of it, with real-time jobs beside them.
  double floor = 0;
  duration floor_window = std::chrono::milliseconds{10};
  /// A listener hears of best-effort jobs of which nothing was let on for so long.
  duration starved_after = std::chrono::milliseconds{100};
  /// Sizes of partitions on which best-effort jobs may run beside real-time ones, tried in turn and
  /// kept where that gains; empty: none.
  inline_vector<sm_count, 4> side{};
  /// Real-time programs may be padded with best-effort ones, as dispatcher::add_padded says,
  /// where that gains: a choice among those of `side`, for jobs that nothing is in flight of.
  bool pads = false;
  /// How much longer, as a part of their time alone, real-time jobs may take because of that.
  double tolerance = 0.05;
  /// Numbers of SMs, rising, that best-effort programs with long kernels may leave free, as a
  /// kernel that runs cannot be stopped; empty: none. Which number is in force is learned for each
  /// best-effort model (reserve_choice), and none is while no real-time job is expected.
  /// Best-effort lanes are opened once more for each number, and only such programs are prepared
  /// for them.
  inline_vector<sm_count, 4> reserve{};
  /// False: the first number is always in force.
  bool reserve_learns = true;
  /// While a real-time job is expected, best-effort programs with a long kernel are cut at
  /// long_operation or at their next kernel, and nothing is queued behind such a segment on its
  /// lane: one long kernel at most is ahead of a real-time job. With `reserve` it is always so.
  bool one_long = false;
  /// Expected time from which a kernel counts as long.
  duration long_operation = std::chrono::microseconds{100};
  /// What the choice has to reach: how much longer real-time jobs may take because of best-effort
  /// work that was running when they arrived, in the mean and the slowest in a hundred, as parts of
  /// their time alone; and the part that best-effort work keeps of its throughput in the time that
  /// real-time jobs leave when they run alone.
  double reserve_slow_down = 0.10;
  double reserve_tail = 0.50;
  double reserve_share = 0.80;
  /// What is queued ahead of the device is short while a real-time job is likely to come, long
  /// while none is, between these marks; for lanes that cannot yield.
  bool adaptive = true;
  duration least_queue = std::chrono::microseconds{20};
  duration cut_cost = std::chrono::nanoseconds{2500}; ///< of one more segment, in device time

  /// Itself, or throws bad_option in one line.
  [[nodiscard]] const preemption_options& checked() const {
    const auto fail = [](const char* what) { throw error(errc::bad_option, what); };
    if (!(floor >= 0 && floor < 1)) fail("preemption.floor: expected 0 to below 1");
    if (floor_window <= duration::zero()) fail("preemption.floor_window: expected more than 0");
    if (starved_after <= duration::zero()) fail("preemption.starved_after: expected more than 0");
    if (!(tolerance >= 0)) fail("preemption.tolerance: expected 0 or more");
    if (least_queue <= duration::zero()) fail("preemption.least_queue: expected more than 0");
    if (cut_cost <= duration::zero()) fail("preemption.cut_cost: expected more than 0");
    for (const sm_count sms : side)
      if (sms.count() == 0) fail("preemption.side: expected partitions of at least 1 SM");
    sm_count last{};
    for (const sm_count sms : reserve) {
      if (sms <= last) fail("preemption.reserve: expected sizes that rise, of at least 1 SM");
      last = sms;
    }
    if (long_operation <= duration::zero()) fail("preemption.long_operation: expected more than 0");
    if (!(reserve_slow_down >= 0 && reserve_tail >= 0))
      fail("preemption.reserve_slow_down, reserve_tail: expected 0 or more");
    if (!(reserve_share >= 0 && reserve_share <= 1))
      fail("preemption.reserve_share: expected 0 to 1");
    if (real_time_lanes == 0 && (floor > 0 || !side.empty() || pads || !reserve.empty()))
      fail("preemption.floor, side, pads, reserve: expected real_time_lanes of at least 1 with "
           "them");
    return *this;
  }
};

} // namespace gsched

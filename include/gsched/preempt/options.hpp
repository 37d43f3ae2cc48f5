// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/inline_vector.hpp>
#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/device/device.hpp>

#include <chrono>
#include <cstdint>

namespace gsched {

/// How a dispatcher isolates real-time work from best-effort work. Needs a policy that serves
/// real-time jobs first, such as priority<A, B>.
///
/// Source   Han et al., ACM TOCS 44(1), 2025, sections 3 to 5, doi:10.1145/3768622.
struct preemption_options {
  /// Lanes for real-time jobs alone; 0: both classes share all lanes, and the other options have no
  /// effect.
  std::uint32_t real_time_lanes = 0;
  lane_options real_time_lane{.priority = 1};
  /// Length of real-time segments. The default submits a whole program at once: only more urgent
  /// real-time work may run in between.
  duration real_time_quantum = run_to_completion;
  /// While real-time jobs are active, best-effort lanes yield (on a preemptive_device) and receive
  /// no work. False: only the priorities of the lanes separate the classes.
  bool yields = true;
  /// The fraction of the time, from 0 to below 1, that best-effort jobs receive even if real-time
  /// jobs never end: in each window they run for that fraction, beside real-time jobs.
  double floor = 0;
  duration floor_window = std::chrono::milliseconds{10};
  /// The listener is notified when no best-effort work was released for this long.
  duration starved_after = std::chrono::milliseconds{100};
  /// Sizes of partitions on which best-effort jobs may run beside real-time jobs. Each is tried,
  /// and used if it gains throughput; empty: none.
  inline_vector<sm_count, 4> side{};
  /// Whether real-time programs may be padded with best-effort programs (dispatcher::add_padded),
  /// if that gains throughput: one more choice beside those of `side`, for jobs with nothing in
  /// flight.
  bool pads = false;
  /// How much longer real-time jobs may take because of that, as a fraction of their time alone.
  double tolerance = 0.05;
  /// Numbers of SMs, rising, that best-effort programs with long kernels may leave unused, because
  /// a running kernel cannot be stopped; empty: none. The number is learned for each best-effort
  /// model (reserve_choice); none is left while no real-time job is expected. Each best-effort lane
  /// gets an alternate for each number, and only programs with long kernels are prepared for the
  /// alternates.
  inline_vector<sm_count, 4> reserve{};
  /// False: always use the first number.
  bool reserve_learns = true;
  /// While a real-time job is expected, best-effort programs with a long kernel are cut at
  /// long_operation or at their next kernel, and no segment is queued behind such a segment on its
  /// lane: at most one long kernel is ahead of a real-time job. Always so with `reserve`.
  bool one_long = false;
  /// Expected time from which a kernel is long.
  duration long_operation = std::chrono::microseconds{100};
  /// The targets of that choice: how much longer real-time jobs may take because of best-effort
  /// work that was running at their arrival, in the mean and for the slowest in a hundred, as
  /// fractions of their time alone; and the fraction of its throughput that best-effort work keeps
  /// in the time that real-time jobs leave when they run alone.
  double reserve_slow_down = 0.10;
  double reserve_tail = 0.50;
  double reserve_share = 0.80;
  /// Adapt the marks of lanes that cannot yield: little queued work while a real-time job is likely
  /// to arrive, much while none is.
  bool adaptive = true;
  duration least_queue = std::chrono::microseconds{20};
  duration cut_cost = std::chrono::nanoseconds{2500}; ///< device time of one more segment

  /// Returns itself, or throws bad_option in one line.
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

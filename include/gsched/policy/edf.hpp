// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/job/job.hpp>
#include <gsched/policy/backlog_order.hpp>
#include <gsched/policy/policy.hpp>

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <string_view>

namespace gsched {

/// Earliest deadline first: the waiting job whose deadline is nearest runs next.
///
/// Source   Liu & Layland, J. ACM 20(1), 1973, doi:10.1145/321738.321743.
/// Differs  jobs are aperiodic; who asks admits() can refuse those that would be late.
/// Order    (deadline, id) rising; jobs with no_deadline come last.
/// Units    deadlines are absolute, on gsched::timeline.
/// Errors   none; enqueueing a job twice is a bug (asserted).
/// Cost     enqueue, try_pick, erase, admits O(log n) expected; the rest O(1). Never allocates.
/// Threads  one owner; no locking.
class edf {
public:
  static constexpr std::string_view name = "edf";

  /// overlap is how many nanoseconds of estimated work the device gets through in one: 1 if jobs
  /// run one after another, more if they share it, infinity to leave other jobs out of account.
  explicit edf(double overlap = 1.0) noexcept : overlap_(overlap) { assert(overlap >= 1); }

  void enqueue(job& j, time_point) noexcept { waiting_.insert(j); }
  [[nodiscard]] job* try_pick(time_point) noexcept { return waiting_.pop_front(); }
  void erase(job& j) noexcept { waiting_.erase(j); }

  /// Strict: an equal deadline never preempts, so two jobs cannot swap for ever.
  [[nodiscard]] bool wants_preempt(const job& running, time_point) const noexcept {
    const job* first = waiting_.front();
    return first != nullptr && first->deadline < running.deadline;
  }

  /// Whether j can end by its deadline, if what is on the device, the waiting jobs whose deadline
  /// is not later, and then j itself take as long as estimated. Differs  refuses in vain where jobs
  /// overlap more than was said, estimates are too long or a job
  ///          ahead is cancelled; admits in vain where estimates are too short, jobs picked are yet
  ///          to be enqueued again, or jobs with earlier deadlines are still to come.
  [[nodiscard]] bool admits(const job& j, time_point now) const noexcept {
    if (j.deadline == no_deadline) return true;
    const auto ahead = static_cast<double>(waiting_.work_until(j.deadline).count()) / overlap_;
    const time_point start =
        saturating_add(std::max(now, busy_until_), duration{static_cast<duration::rep>(ahead)});
    return saturating_add(start, j.remaining) <= j.deadline;
  }

  /// When the device will have done all that was submitted to it, as far as is known. A time that
  /// has passed says that it is idle.
  void set_busy_until(time_point t) noexcept { busy_until_ = t; }

  [[nodiscard]] duration slice(const job&) const noexcept { return run_to_completion; }
  [[nodiscard]] std::size_t size() const noexcept { return waiting_.size(); }

private:
  backlog_order waiting_;
  time_point busy_until_ = time_point::min();
  double overlap_;
};

static_assert(admitting_policy<edf>);

} // namespace gsched

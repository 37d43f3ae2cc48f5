// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/job/job.hpp>
#include <gsched/policy/detail/backlog_order.hpp>
#include <gsched/policy/detail/deadline_forecast.hpp>
#include <gsched/policy/detail/deadline_order.hpp>
#include <gsched/policy/policy.hpp>

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <string_view>

namespace gsched {

/// Earliest deadline first: the waiting job with the nearest deadline runs next.
///
/// Source   Liu & Layland, J. ACM 20(1), 1973, doi:10.1145/321738.321743.
/// Differs  jobs are aperiodic. admits() refuses a job that would be late or would make an admitted
///          job late. The number of jobs that the device serves concurrently and the error of the
///          forecasts are learned from the jobs that the policy follows (follows_work).
/// Order    (deadline, id) rising; jobs with no_deadline come last.
/// Units    deadlines are absolute, on gsched::timeline.
/// Errors   none; enqueueing a job twice is a bug (asserted).
/// Cost     enqueue, try_pick, erase, admits, entered, submitted, landed, left O(log n) expected;
///          the rest O(1). Never allocates.
/// Threads  one owner; no locking.
class edf {
public:
  static constexpr std::string_view name = "edf";
  /// The state of a job in this policy.
  struct per_job : deadline_order::per_job {
    backlog_entry backlog{};
  };

  /// `overlap`: nanoseconds of estimated work that the device completes in one nanosecond, until it
  /// is learned. 1: jobs run one after another; more: they share the device; infinity: other jobs
  /// are disregarded.
  explicit edf(double overlap = 1.0) noexcept : forecast_(overlap) { assert(overlap >= 1); }

  void enqueue(per_job& j, time_point now) noexcept {
    waiting_.enqueue(j, now);
    note(j, j->remaining + j.backlog.submitted, now);
  }
  [[nodiscard]] per_job* try_pick(time_point now) noexcept {
    auto* const first = static_cast<per_job*>(waiting_.try_pick(now));
    if (first != nullptr && !first->backlog.active) known_.erase(first->backlog);
    return first;
  }
  void erase(per_job& j) noexcept {
    waiting_.erase(j);
    if (!j.backlog.active) known_.erase(j.backlog);
  }

  [[nodiscard]] bool wants_preempt(const per_job& running, time_point now) const noexcept {
    return waiting_.wants_preempt(running, now);
  }

  /// Whether j and all jobs that have entered can meet their deadlines, if the work on the device,
  /// the jobs with an earlier or equal deadline, and then j take as long as forecast.
  ///
  /// Differs  refuses too much if estimates are too long or a job ahead is cancelled; admits too
  ///          much if estimates are too short or if jobs that the policy does not follow use the
  ///          device.
  [[nodiscard]] bool admits(const per_job& j, time_point now) const noexcept {
    if (j->deadline == no_deadline) return true;
    const backlog_order::outlook o = known_.at(j->deadline);
    const time_point start = saturating_add(now, o.ahead);
    if (saturating_add(start, forecast_.own(j->remaining, now)) > j->deadline) return false;
    return o.least_slack == duration::max() ||
           o.least_slack - forecast_.share(j->remaining) >= now.time_since_epoch();
  }

  // follows_work ------------------------------------------------------------------------------

  void entered(per_job& j, time_point now) noexcept {
    j.backlog.active = true;
    j.backlog.submitted = {};
    j.backlog.entered = now;
    j.backlog.ahead = known_.at(j->deadline).ahead;
    j.backlog.took = forecast_.own(j->remaining, now);
    j.backlog.others = active_++;
    note(j, j->remaining, now);
  }
  void submitted(per_job& j, duration work, time_point now) noexcept {
    if (!j.backlog.active) return;
    j.backlog.submitted += work;
    note(j, j.backlog.unfinished, now);
  }
  void landed(per_job& j, duration work, bool done, time_point now) noexcept {
    if (!j.backlog.active) return;
    j.backlog.submitted -= work;
    note(j, done ? j.backlog.unfinished - work : j.backlog.unfinished, now);
  }
  void left(per_job& j, bool finished, time_point now) noexcept {
    backlog_entry& b = j.backlog;
    if (!b.active) return;
    --active_;
    if (finished) forecast_.took(now - b.entered, {b.took, b.ahead, b.others}, now);
    known_.erase(b);
  }

  /// The learned overlap: nanoseconds of estimated work that the device completes in one
  /// nanosecond.
  [[nodiscard]] double overlap() const noexcept { return forecast_.overlap(); }
  /// The learned margin: the time that one nanosecond of a job's own work takes.
  [[nodiscard]] double margin(time_point now) const noexcept { return forecast_.margin(now); }

  [[nodiscard]] duration slice(const per_job&) const noexcept { return run_to_completion; }
  [[nodiscard]] std::size_t size() const noexcept { return waiting_.size(); }

private:
  void note(per_job& j, duration unfinished, time_point now) noexcept {
    backlog_entry& b = j.backlog;
    b.unfinished = std::max(unfinished, b.submitted);
    known_.set(b, *j,
               {forecast_.share(b.unfinished), forecast_.share(b.submitted),
                forecast_.own(b.unfinished, now), b.active});
  }

  deadline_order waiting_;
  backlog_order known_; ///< jobs that wait here, and jobs that have entered
  deadline_forecast forecast_;
  std::size_t active_ = 0;
};

static_assert(follows_work<edf>);

} // namespace gsched

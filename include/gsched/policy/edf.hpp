// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/job/job.hpp>
#include <gsched/policy/order.hpp>
#include <gsched/policy/policy.hpp>

#include <cstddef>
#include <string_view>

namespace gsched {

/// Earliest deadline first: the waiting job whose deadline is nearest runs next.
///
/// Source   Liu & Layland, J. ACM 20(1), 1973, doi:10.1145/321738.321743.
/// Differs  jobs are aperiodic; who asks admits() can refuse those that would be late.
/// Order    (deadline, id) rising; jobs with no_deadline come last.
/// Units    deadlines are absolute, on gsched::timeline.
/// Errors   none; enqueueing a linked job is a bug (asserted).
/// Cost     as job_order.
/// Threads  one owner; no locking.
class edf {
public:
  static constexpr std::string_view name = "edf";

  void enqueue(job& j, time_point) noexcept { waiting_.insert(j); }
  [[nodiscard]] job* try_pick(time_point) noexcept { return waiting_.pop_front(); }
  void erase(job& j) noexcept { waiting_.erase(j); }

  /// Strict: an equal deadline never preempts, so two jobs cannot swap for ever.
  [[nodiscard]] bool wants_preempt(const job& running, time_point) const noexcept {
    const job* first = waiting_.front();
    return first != nullptr && first->deadline < running.deadline;
  }

  [[nodiscard]] bool admits(const job& j, time_point now) const noexcept {
    return saturating_add(now, j.remaining) <= j.deadline;
  }

  [[nodiscard]] duration slice(const job&) const noexcept { return run_to_completion; }
  [[nodiscard]] std::size_t size() const noexcept { return waiting_.size(); }

private:
  job_order<&job::deadline> waiting_;
};

static_assert(admitting_policy<edf>);

} // namespace gsched

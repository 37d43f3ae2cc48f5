// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/job/job.hpp>
#include <gsched/policy/order.hpp>
#include <gsched/policy/policy.hpp>

#include <cstddef>
#include <string_view>

namespace gsched {

/// Shortest job first: the job with the least total work runs next.
///
/// Source   Conway, Maxwell & Miller, Theory of Scheduling, 1967, chapter 8.
/// Differs  the choice is made at each segment, so a shorter job that arrives goes first at the
///          next one. Work already done does not count (in srpt it does).
/// Order    (total, id) rising.
/// Units    total is device time, as estimated when the job arrived.
/// Errors   none; enqueueing a linked job is a bug (asserted).
/// Cost     as job_order.
/// Threads  one owner; no locking.
class sjf {
public:
  using order = job_order<&job::total>;
  using per_job = order::per_job;
  static constexpr std::string_view name = "sjf";

  void enqueue(per_job& j, time_point) noexcept { waiting_.insert(j); }
  [[nodiscard]] per_job* try_pick(time_point) noexcept { return waiting_.pop_front(); }
  void erase(per_job& j) noexcept { waiting_.erase(j); }

  /// Never: the policy orders waiting jobs and takes nothing back.
  [[nodiscard]] bool wants_preempt(const per_job&, time_point) const noexcept { return false; }

  [[nodiscard]] duration slice(const per_job&) const noexcept { return run_to_completion; }
  [[nodiscard]] std::size_t size() const noexcept { return waiting_.size(); }

private:
  order waiting_;
};

static_assert(policy<sjf>);

} // namespace gsched

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/job/job.hpp>
#include <gsched/policy/order.hpp>
#include <gsched/policy/policy.hpp>

#include <cstddef>
#include <string_view>

namespace gsched {

/// The order of edf, without its admission.
///
/// Order    (deadline, id) rising; jobs with no_deadline come last.
/// Errors   none; enqueueing a linked job is a bug (asserted).
/// Cost     as job_order.
/// Threads  one owner; no locking.
class deadline_order {
public:
  using order = job_order<&job::deadline>;
  using per_job = order::per_job;
  static constexpr std::string_view name = "deadlines";

  void enqueue(per_job& j, time_point) noexcept { waiting_.insert(j); }
  [[nodiscard]] per_job* try_pick(time_point) noexcept { return waiting_.pop_front(); }
  void erase(per_job& j) noexcept { waiting_.erase(j); }

  /// Strict: an equal deadline never preempts, so two jobs cannot alternate for ever.
  [[nodiscard]] bool wants_preempt(const per_job& running, time_point) const noexcept {
    const per_job* first = waiting_.front();
    return first != nullptr && first->key < running->deadline;
  }
  [[nodiscard]] duration slice(const per_job&) const noexcept { return run_to_completion; }
  [[nodiscard]] std::size_t size() const noexcept { return waiting_.size(); }

private:
  order waiting_;
};

static_assert(policy<deadline_order>);

} // namespace gsched

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/job/job.hpp>
#include <gsched/policy/order.hpp>
#include <gsched/policy/policy.hpp>

#include <cstddef>
#include <string_view>

namespace gsched {

/// First come, first served: the job that arrived first runs until it is done.
///
/// Differs  a job that is enqueued again returns to its position, not to the tail; round_robin
///          sends it to the tail.
/// Order    (arrival, id) rising.
/// Errors   none; enqueueing a linked job is a bug (asserted).
/// Cost     as job_order.
/// Threads  one owner; no locking.
class fifo {
public:
  using order = job_order<&job::arrival>;
  using per_job = order::per_job;
  static constexpr std::string_view name = "fifo";

  void enqueue(per_job& j, time_point) noexcept { waiting_.insert(j); }
  [[nodiscard]] per_job* try_pick(time_point) noexcept { return waiting_.pop_front(); }
  void erase(per_job& j) noexcept { waiting_.erase(j); }

  /// Never: the first job keeps the device.
  [[nodiscard]] bool wants_preempt(const per_job&, time_point) const noexcept { return false; }

  [[nodiscard]] duration slice(const per_job&) const noexcept { return run_to_completion; }
  [[nodiscard]] std::size_t size() const noexcept { return waiting_.size(); }

private:
  order waiting_;
};

static_assert(policy<fifo>);

} // namespace gsched

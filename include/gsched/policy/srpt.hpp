// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/job/job.hpp>
#include <gsched/policy/order.hpp>
#include <gsched/policy/policy.hpp>

#include <cstddef>
#include <string_view>

namespace gsched {

/// Shortest remaining processing time: the job with the least remaining work runs next. It is
/// optimal for mean latency if the estimates are right, and starves long jobs under load;
/// deficit_over<srpt> bounds that.
///
/// Source   Schrage, Operations Research 16(3), 1968, doi:10.1287/opre.16.3.687; as in Paella, SOSP
///          2023, doi:10.1145/3600006.3613163, section 6 (1).
/// Order    (remaining, id) rising.
/// Units    remaining is device time not yet dispatched.
/// Errors   none; enqueueing a linked job is a bug (asserted).
/// Cost     as job_order.
/// Threads  one owner; no locking.
class srpt {
public:
  using order = job_order<&job::remaining>;
  using per_job = order::per_job;
  static constexpr std::string_view name = "srpt";

  void enqueue(per_job& j, time_point) noexcept { waiting_.insert(j); }
  [[nodiscard]] per_job* try_pick(time_point) noexcept { return waiting_.pop_front(); }
  void erase(per_job& j) noexcept { waiting_.erase(j); }

  /// Strict: an equal remainder never preempts, so two jobs cannot alternate for ever.
  [[nodiscard]] bool wants_preempt(const per_job& running, time_point) const noexcept {
    const per_job* first = waiting_.front();
    return first != nullptr && first->key < running->remaining;
  }

  [[nodiscard]] duration slice(const per_job&) const noexcept { return run_to_completion; }
  [[nodiscard]] std::size_t size() const noexcept { return waiting_.size(); }

private:
  order waiting_;
};

static_assert(policy<srpt>);

} // namespace gsched

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/job/job.hpp>
#include <gsched/policy/order.hpp>
#include <gsched/policy/policy.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gsched {

/// Each waiting job gets one slice a round.
///
/// Differs  rounds are over jobs, not clients. Within a round the order is by id rather than by
///          enqueueing, so that it does not depend on the order of calls.
/// Order    (round, id) rising. A job joins the round after the one that is being served, so a
///          later arrival is never served twice before it.
/// Errors   none; enqueueing a linked job is a bug (asserted).
/// Cost     as job_order.
/// Threads  one owner; no locking.
class round_robin {
public:
  using order = keyed_jobs<std::uint64_t>; ///< by the round in which a job is served next
  using per_job = order::per_job;
  static constexpr std::string_view name = "rr";

  /// The time of about ten kernels of a network, long enough to keep the device's queue full.
  static constexpr duration default_slice = std::chrono::microseconds{100};

  explicit round_robin(duration slice = default_slice) noexcept : slice_(slice) {}

  /// A policy with the same slice.
  [[nodiscard]] round_robin fresh() const noexcept { return round_robin(slice_); }

  void enqueue(per_job& j, time_point) noexcept { waiting_.insert(j, round_ + 1); }

  [[nodiscard]] per_job* try_pick(time_point) noexcept {
    per_job* first = waiting_.pop_front();
    if (first != nullptr) round_ = first->key;
    return first;
  }

  void erase(per_job& j) noexcept { waiting_.erase(j); }

  /// Never: a slice is short and ends by itself.
  [[nodiscard]] bool wants_preempt(const per_job&, time_point) const noexcept { return false; }

  [[nodiscard]] duration slice(const per_job&) const noexcept { return slice_; }
  [[nodiscard]] std::size_t size() const noexcept { return waiting_.size(); }

private:
  order waiting_;
  std::uint64_t round_ = 0; ///< the round of the job picked last
  duration slice_;
};

static_assert(policy<round_robin>);

} // namespace gsched

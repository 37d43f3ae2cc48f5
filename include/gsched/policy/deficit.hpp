// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/job/job.hpp>
#include <gsched/policy/detail/age_order.hpp>
#include <gsched/policy/detail/deficit_ledger.hpp>
#include <gsched/policy/policy.hpp>

#include <cstddef>
#include <string_view>

namespace gsched {

/// Pure fairness: serves the oldest job of the client with the largest deficit.
///
/// Source   Paella, SOSP 2023, doi:10.1145/3600006.3613163, section 6 (2), without a threshold.
/// Differs  as deficit_ledger, also for the credit of idle clients.
/// Order    (deficit per weight falling, client id), then job id.
/// Units    a pick is charged the job's head, in device time, and at least 1 ns.
/// Errors   none; enqueueing a linked job is a bug (asserted).
/// Cost     enqueue, try_pick, erase O(log n), as deficit_ledger and age_order; the rest O(1).
/// Threads  one owner; no locking.
class deficit {
public:
  static constexpr std::string_view name = "deficit";
  using per_client = fair_client;
  /// The state of a job in this policy.
  struct per_job : queued_job, aged_job {
    void bind(job& j, fair_client& c) noexcept {
      queued_job::bind(j, c);
      account = &c;
    }
    fair_client* account = nullptr;
  };

  void enqueue(per_job& j, time_point) noexcept {
    if (j.account->jobs.empty()) ledger_.enter(*j.account);
    j.account->jobs.insert(j, j->id);
    ++size_;
  }

  [[nodiscard]] per_job* try_pick(time_point) noexcept {
    fair_client* const owed = ledger_.leader();
    if (owed == nullptr) return nullptr;
    auto& picked = static_cast<per_job&>(owed->jobs.oldest());
    ledger_.pick(*owed, picked->head, owed->jobs.has_one());
    owed->jobs.erase(picked);
    --size_;
    return &picked;
  }

  void erase(per_job& j) noexcept {
    j.account->jobs.erase(j);
    if (j.account->jobs.empty()) ledger_.leave(*j.account);
    --size_;
  }

  /// Never: a pick is charged in full, so it is also served in full.
  [[nodiscard]] bool wants_preempt(const per_job&, time_point) const noexcept { return false; }

  /// Call before a client without jobs is destroyed while this policy lives on.
  void forget(per_client& c) noexcept { ledger_.forget(c); }

  [[nodiscard]] duration slice(const per_job&) const noexcept { return run_to_completion; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

private:
  deficit_ledger ledger_;
  std::size_t size_ = 0;
};

static_assert(policy<deficit>);

} // namespace gsched

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/job/job.hpp>
#include <gsched/policy/age_order.hpp>
#include <gsched/policy/deficit_ledger.hpp>
#include <gsched/policy/policy.hpp>

#include <cstddef>
#include <string_view>

namespace gsched {

/// Pure fairness: the client that is owed most device time is served, by its oldest job.
///
/// Source   Paella, SOSP 2023, doi:10.1145/3600006.3613163, section 6 (2), without a threshold.
/// Differs  as deficit_ledger, which also says what a client that was idle is owed.
/// Order    (deficit per weight falling, client id), then job id.
/// Units    a pick costs the job's head, in device time, and at least 1 ns.
/// Errors   none; enqueueing a linked job is a bug (asserted).
/// Cost     enqueue, try_pick, erase O(log n), as deficit_ledger and age_order; the rest O(1).
/// Threads  one owner; no locking.
class deficit {
public:
  static constexpr std::string_view name = "deficit";
  using uses_account = void; ///< so that combinators see who owns client::account

  void enqueue(job& j, time_point) noexcept {
    if (age_order::empty(*j.owner)) ledger_.enter(*j.owner);
    age_order::insert(j);
    ++size_;
  }

  [[nodiscard]] job* try_pick(time_point) noexcept {
    client* owner = ledger_.leader();
    if (owner == nullptr) return nullptr;
    job& picked = age_order::oldest(*owner);
    ledger_.pick(*owner, picked.head, age_order::has_one(*owner));
    age_order::erase(picked);
    --size_;
    return &picked;
  }

  void erase(job& j) noexcept {
    age_order::erase(j);
    if (age_order::empty(*j.owner)) ledger_.leave(*j.owner);
    --size_;
  }

  /// Never: a pick is charged in full, so it is also served in full.
  [[nodiscard]] bool wants_preempt(const job&, time_point) const noexcept { return false; }

  /// Before a client without jobs is destroyed while this policy lives on.
  void forget(client& c) noexcept { ledger_.forget(c); }

  [[nodiscard]] duration slice(const job&) const noexcept { return run_to_completion; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

private:
  deficit_ledger ledger_;
  std::size_t size_ = 0;
};

static_assert(policy<deficit>);

} // namespace gsched

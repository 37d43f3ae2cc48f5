// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/job/job.hpp>
#include <gsched/policy/age_order.hpp>
#include <gsched/policy/deficit_ledger.hpp>
#include <gsched/policy/name.hpp>
#include <gsched/policy/policy.hpp>

#include <chrono>
#include <cstddef>
#include <string_view>
#include <type_traits>

namespace gsched {

/// P, but no client falls behind by more than a threshold: once the highest deficit exceeds it, the
/// oldest job of that client is picked. deficit_over<srpt> is the policy of the Paella paper.
///
/// Source   Paella, SOSP 2023, doi:10.1145/3600006.3613163, section 6.
/// Differs  as deficit_ledger: device time is charged where the paper counts kernels.
/// Order    (deficit per weight falling, client id), then job id, while a client is overdue; else
///          P's.
/// Units    the threshold is device time owed to a client of the mean weight. Zero is pure
/// fairness,
///          run_to_completion is P alone. A pick costs the job's head, and at least 1 ns.
/// Bounds   of n clients of equal weight that always wait, one that P passes over is owed a
/// threshold
///          after n thresholds of picks, and is served after at most n - 1 others that are owed as
///          much: in less than 2 n (threshold + longest head) of picked device time. At 256 clients
///          and 10 ms that is seconds; fewer where jobs overlap on the device.
/// Errors   none; enqueueing a linked job is a bug (asserted).
/// Cost     P's, and O(log n). Never allocates if P does not.
/// Threads  one owner; no locking.
template <policy P>
class deficit_over {
  static_assert(!std::is_base_of_v<fair_client, per_client_t<P>>, "deficits do not nest");
  static constexpr std::string_view suffix = "+deficit";

public:
  static constexpr std::string_view name = joined_name<&P::name, &suffix>::value;
  struct per_client : per_client_t<P>, fair_client {
    void bind(const client& c) noexcept {
      per_client_t<P>::bind(c);
      fair_client::bind(c);
    }
  };
  struct per_job : P::per_job, aged_job {
    void bind(job& j, per_client& c) noexcept {
      P::per_job::bind(j, static_cast<per_client_t<P>&>(c));
      account = &c;
    }
    fair_client* account = nullptr;
  };

  /// A few inferences: short jobs go ahead as P likes. This is what one client may be owed, not how
  /// long it waits: see Bounds.
  static constexpr duration default_threshold = std::chrono::milliseconds{10};

  explicit deficit_over(duration threshold = default_threshold) noexcept : threshold_(threshold) {}

  [[nodiscard]] duration threshold() const noexcept { return threshold_; }
  void set_threshold(duration t) noexcept { threshold_ = t; }

  void enqueue(per_job& j, time_point now) noexcept {
    if (j.account->jobs.empty()) ledger_.enter(*j.account);
    j.account->jobs.insert(j, j->id);
    base_.enqueue(j, now);
  }

  [[nodiscard]] per_job* try_pick(time_point now) noexcept {
    per_job* picked = nullptr;
    if (fair_client* const owed = ledger_.overdue(threshold_)) {
      picked = static_cast<per_job*>(&owed->jobs.oldest());
      base_.erase(*picked);
    } else {
      picked = static_cast<per_job*>(base_.try_pick(now));
      if (picked == nullptr) return nullptr;
    }
    fair_client& served = *picked->account;
    ledger_.pick(served, (*picked)->head, served.jobs.has_one());
    served.jobs.erase(*picked);
    return picked;
  }

  void erase(per_job& j) noexcept {
    base_.erase(j);
    j.account->jobs.erase(j);
    if (j.account->jobs.empty()) ledger_.leave(*j.account);
  }

  /// As P, unless the running job's client was overdue when it was picked: what fairness gave, P
  /// does not take back. Deficits themselves never preempt, for they are settled by the segment.
  [[nodiscard]] bool wants_preempt(const per_job& running, time_point now) const noexcept {
    return base_.wants_preempt(running, now) && !ledger_.was_overdue(*running.account, threshold_);
  }

  /// As P would with nothing before the job, for fairness may serve it ahead of P's order.
  [[nodiscard]] bool admits(const per_job& j,
                            time_point now) const noexcept requires admitting_policy<P> {
    return P{}.admits(j, now);
  }

  /// Before a client without jobs is destroyed while this policy lives on.
  void forget(per_client& c) noexcept {
    ledger_.forget(c);
    if constexpr (forgets_clients<P>) base_.forget(c);
  }

  [[nodiscard]] duration slice(const per_job& j) const noexcept { return base_.slice(j); }
  [[nodiscard]] std::size_t size() const noexcept { return base_.size(); }

private:
  P base_;
  deficit_ledger ledger_;
  duration threshold_;
};

} // namespace gsched

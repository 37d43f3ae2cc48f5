// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/job/job.hpp>
#include <gsched/policy/detail/age_order.hpp>
#include <gsched/policy/detail/deficit_ledger.hpp>
#include <gsched/policy/name.hpp>
#include <gsched/policy/policy.hpp>

#include <chrono>
#include <cstddef>
#include <string_view>
#include <type_traits>

namespace gsched {

/// P with bounded unfairness: while the largest deficit of a client exceeds a threshold, its oldest
/// job is picked. deficit_over<srpt> is the policy of the Paella paper.
///
/// Source   Paella, SOSP 2023, doi:10.1145/3600006.3613163, section 6.
/// Differs  as deficit_ledger: charges device time where the paper counts kernels.
/// Order    while a client is overdue: (deficit per weight falling, client id), then job id;
///          otherwise the order of P.
/// Units    the threshold is device time owed to a client of the mean weight. Zero is pure
///          fairness, run_to_completion is P alone. A pick is charged the job's head, and at least
///          1 ns.
/// Bounds   among n clients of equal weight with waiting jobs, a client that P never picks is owed
///          a threshold after n thresholds of picks, and is served after at most n - 1 clients with
///          equal deficits: within 2 n (threshold + longest head) of picked device time. At 256
///          clients and 10 ms these are seconds; fewer if jobs overlap on the device.
/// Errors   none; enqueueing a linked job is a bug (asserted).
/// Cost     that of P, and O(log n). Never allocates if P does not.
/// Threads  one owner; no locking.
template <policy P>
class deficit_over {
  static_assert(!std::is_base_of_v<fair_client, per_client_t<P>>, "deficits do not nest");
  static constexpr std::string_view suffix = "+deficit";

public:
  static constexpr std::string_view name = joined_name<&P::name, &suffix>::value;
  /// The state of a client: its account, and the state in P.
  struct per_client : per_client_t<P>, fair_client {
    void bind(const client& c) noexcept {
      per_client_t<P>::bind(c);
      fair_client::bind(c);
    }
  };
  /// The state of a job: that in P, and its place among the jobs of its client.
  struct per_job : P::per_job, aged_job {
    void bind(job& j, per_client& c) noexcept {
      P::per_job::bind(j, static_cast<per_client_t<P>&>(c));
      account = &c;
    }
    fair_client* account = nullptr;
  };

  /// The time of a few inferences, so that P can prefer short jobs. The threshold limits the
  /// deficit of a client, not its waiting time: see Bounds.
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

  /// As P, unless the client of the running job was overdue when it was picked: P does not take
  /// back what fairness gave. Deficits never preempt, because they are charged by the segment.
  [[nodiscard]] bool wants_preempt(const per_job& running, time_point now) const noexcept {
    return base_.wants_preempt(running, now) && !ledger_.was_overdue(*running.account, threshold_);
  }

  /// As P decides with no job ahead, because fairness may serve the job ahead of P's order.
  [[nodiscard]] bool admits(const per_job& j, time_point now) const noexcept
    requires admitting_policy<P>
  {
    return P{}.admits(j, now);
  }

  /// Call before a client without jobs is destroyed while this policy lives on.
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

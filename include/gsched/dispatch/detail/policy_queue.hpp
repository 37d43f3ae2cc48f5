// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/id.hpp>
#include <gsched/core/time.hpp>
#include <gsched/dispatch/active_job.hpp>
#include <gsched/job/frame_pool.hpp>
#include <gsched/policy/policy.hpp>
#include <gsched/policy/start_policy.hpp>

#include <cstddef>
#include <deque>
#include <memory>
#include <utility>

namespace gsched {

/// An active job with its states of the dispatcher's policy and of the policy that orders jobs
/// before they start.
template <policy P>
struct policy_job : active_job {
  using active_job::active_job;
  typename P::per_job policy_state{};
  typename start_policy<P>::type::per_job start_state{};
};

/// A policy in terms of active jobs: it finds the policy's state of each job and stores its states
/// of clients. Each job of the dispatcher is a policy_job<P>.
///
/// Cost     that of the policy; add_client allocates.
/// Threads  one owner; no locking.
template <policy P>
class policy_queue {
public:
  /// The policy outlives it, and has no jobs of other callers.
  explicit policy_queue(P& p) noexcept : policy_(p) {}
  policy_queue(const policy_queue&) = delete;
  policy_queue& operator=(const policy_queue&) = delete;
  /// No job may be in the policy.
  ~policy_queue() {
    if constexpr (forgets_clients<P>)
      for (per_client_t<P>& c : clients_) policy_.forget(c);
  }

  /// Adds a client; ids rise from 0. Set-up.
  void add_client(const client& c) { clients_.emplace_back().bind(c); }

  /// Initialises the policy's state of a new job, whose facts are set.
  void begin(active_job& a) noexcept {
    typename P::per_job& s = state_of(a);
    std::destroy_at(&s);
    std::construct_at(&s);
    s.bind(a, clients_[index(a.owner->id)]);
  }

  [[nodiscard]] bool admits(const active_job& a, time_point now) const noexcept {
    return gsched::admits(policy_, state_of(a), now);
  }
  void enqueue(active_job& a, time_point now) noexcept {
    policy_.enqueue(state_of(a), now);
    a.in_policy = true;
  }
  /// No effect if the job is not in the policy.
  void erase(active_job& a) noexcept {
    if (std::exchange(a.in_policy, false)) policy_.erase(state_of(a));
  }
  /// Picks a job; size() must not be 0.
  [[nodiscard]] active_job& pick(time_point now) noexcept { return picked(*policy_.try_pick(now)); }
  /// Picks a job of a class; size(of) must not be 0.
  [[nodiscard]] active_job& pick(service_class of, time_point now) noexcept
    requires serves_real_time_first<P>
  {
    return picked(*policy_.try_pick(of, now));
  }

  [[nodiscard]] bool wants_preempt(const active_job& running, time_point now) const noexcept {
    return policy_.wants_preempt(state_of(running), now);
  }
  [[nodiscard]] duration slice(const active_job& a) const noexcept {
    return policy_.slice(state_of(a));
  }
  [[nodiscard]] std::size_t size() const noexcept { return policy_.size(); }
  [[nodiscard]] std::size_t size(service_class of) const noexcept
    requires serves_real_time_first<P>
  {
    return policy_.size(of);
  }

  // follows_work, for policies that model it ----------------------------------------------------

  void entered(active_job& a, time_point now) noexcept {
    if constexpr (follows_work<P>) policy_.entered(state_of(a), now);
  }
  void submitted(active_job& a, duration expected, time_point now) noexcept {
    if constexpr (follows_work<P>) policy_.submitted(state_of(a), expected, now);
  }
  void landed(active_job& a, duration expected, bool done, time_point now) noexcept {
    if constexpr (follows_work<P>) policy_.landed(state_of(a), expected, done, now);
  }
  void left(active_job& a, bool finished, time_point now) noexcept {
    if constexpr (follows_work<P>) policy_.left(state_of(a), finished, now);
  }

  [[nodiscard]] const P& policy() const noexcept { return policy_; }

private:
  [[nodiscard]] static typename P::per_job& state_of(active_job& a) noexcept {
    return static_cast<policy_job<P>&>(a).policy_state;
  }
  [[nodiscard]] static const typename P::per_job& state_of(const active_job& a) noexcept {
    return static_cast<const policy_job<P>&>(a).policy_state;
  }
  [[nodiscard]] static active_job& picked(typename P::per_job& s) noexcept {
    auto& a = static_cast<active_job&>(s.bound());
    a.in_policy = false;
    return a;
  }

  P& policy_;
  std::deque<per_client_t<P>> clients_; ///< by id
};

} // namespace gsched

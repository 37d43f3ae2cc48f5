// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "policy/workload.hpp"

#include <gsched/policy/policy.hpp>

#include <cstddef>
#include <map>
#include <memory>
#include <utility>

namespace gsched::test {

/// A policy in terms of jobs and clients, with the states that it keeps of them. Those of a
/// workload lie in one array, in the order of its jobs; of others each is made at its first call.
template <class P>
class on_jobs {
public:
  on_jobs() = default;
  template <class... Arguments>
  explicit on_jobs(workload& w, Arguments&&... arguments)
      : of_workload_(std::make_unique<typename P::per_job[]>(w.size())),
        first_(w.by_address().front()), count_(w.size()),
        policy_(std::forward<Arguments>(arguments)...) {
    for (std::size_t i = 0; i < w.clients(); ++i) static_cast<void>(state_of(w.owner(i)));
    for (job* j : w.by_address()) static_cast<void>(state_of(*j));
  }
  template <class Make>
  struct made {
    Make make;
  };
  template <class Make>
  explicit on_jobs(made<Make> from) : policy_(from.make()) {}

  void enqueue(job& j, time_point now) noexcept { policy_.enqueue(state_of(j), now); }
  [[nodiscard]] job* try_pick(time_point now) noexcept { return job_of(policy_.try_pick(now)); }
  void erase(job& j) noexcept { policy_.erase(state_of(j)); }
  [[nodiscard]] bool wants_preempt(job& j, time_point now) {
    return policy_.wants_preempt(state_of(j), now);
  }
  [[nodiscard]] bool admits(job& j, time_point now) { return policy_.admits(state_of(j), now); }
  [[nodiscard]] duration slice(job& j) { return policy_.slice(state_of(j)); }
  [[nodiscard]] std::size_t size() const noexcept { return policy_.size(); }
  void entered(job& j, time_point now) { policy_.entered(state_of(j), now); }
  void submitted(job& j, duration x, time_point now) { policy_.submitted(state_of(j), x, now); }
  void landed(job& j, duration x, bool done, time_point now) {
    policy_.landed(state_of(j), x, done, now);
  }
  void left(job& j, bool done, time_point now) { policy_.left(state_of(j), done, now); }
  void forget(client& c) {
    policy_.forget(state_of(c));
    clients_.erase(&c);
  }

  [[nodiscard]] P& policy() noexcept { return policy_; }

  /// By hooks that a policy's state of a job may have.
  [[nodiscard]] bool is_linked(job& j) {
    const auto& s = state_of(j);
    bool any = false;
    if constexpr (requires { s.order_hook; }) any |= s.order_hook.is_linked();
    if constexpr (requires { s.queue_hook; }) any |= s.queue_hook.is_linked();
    if constexpr (requires { s.returned_hook; }) any |= s.returned_hook.is_linked();
    return any;
  }
  [[nodiscard]] bool is_linked(client& c) { return state_of(c).deficit_hook.is_linked(); }

  [[nodiscard]] per_client_t<P>& state_of(client& c) {
    std::unique_ptr<per_client_t<P>>& s = clients_[&c];
    if (s == nullptr) s = std::make_unique<per_client_t<P>>();
    s->bind(c);
    return *s;
  }
  [[nodiscard]] typename P::per_job& state_of(job& j) {
    const auto at = static_cast<std::size_t>(&j - first_);
    if (first_ != nullptr && &j >= first_ && at < count_) {
      of_workload_[at].bind(j, state_of(*j.owner));
      return of_workload_[at];
    }
    std::unique_ptr<typename P::per_job>& s = others_[&j];
    if (s == nullptr) s = std::make_unique<typename P::per_job>();
    s->bind(j, state_of(*j.owner));
    return *s;
  }

private:
  [[nodiscard]] static job* job_of(typename P::per_job* s) noexcept {
    return s == nullptr ? nullptr : &s->bound();
  }

  // Behind the states, so that the policy goes first.
  std::map<const client*, std::unique_ptr<per_client_t<P>>> clients_;
  std::map<const job*, std::unique_ptr<typename P::per_job>> others_;
  std::unique_ptr<typename P::per_job[]> of_workload_;
  const job* first_ = nullptr;
  std::size_t count_ = 0;
  P policy_;
};

} // namespace gsched::test

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/id.hpp>
#include <gsched/core/time.hpp>
#include <gsched/job/job.hpp>
#include <gsched/policy/policy.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <utility>
#include <vector>

namespace gsched::conformance {

/// Clients and jobs for a policy. Job ids begin at zero. With address_opposes_id the lowest id has
/// the highest address, so that an order by address is detected.
class workload {
public:
  workload(std::size_t jobs, bool address_opposes_id, std::size_t clients = 1)
      : clients_(new client[clients]), jobs_(new job[jobs]), size_(jobs), client_count_(clients),
        opposed_(address_opposes_id) {
    for (std::size_t i = 0; i < clients; ++i)
      owner(i).id = client_id{static_cast<std::uint32_t>(i)};
    for (std::size_t i = 0; i < jobs; ++i) {
      (*this)[i].id = job_id{i};
      (*this)[i].owner = &owner(i % clients);
    }
  }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::size_t clients() const noexcept { return client_count_; }
  [[nodiscard]] job& operator[](std::size_t id) noexcept {
    return jobs_[opposed_ ? size_ - 1 - id : id];
  }
  [[nodiscard]] client& owner(std::size_t id) noexcept {
    return clients_[opposed_ ? client_count_ - 1 - id : id];
  }

  /// All jobs in order of address.
  [[nodiscard]] std::vector<job*> by_address() {
    std::vector<job*> all;
    for (std::size_t i = 0; i < size_; ++i) all.push_back(&jobs_[i]);
    return all;
  }

private:
  std::unique_ptr<client[]> clients_;
  std::unique_ptr<job[]> jobs_;
  std::size_t size_;
  std::size_t client_count_;
  bool opposed_;
};

/// Facts from a narrow range, so that keys are often equal.
inline void draw_facts(job& j, std::mt19937_64& random, time_point now) {
  const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(random() % n); };
  const duration unit{below(2) == 0 ? 1 : 700};
  j.service = below(2) == 0 ? service_class::real_time : service_class::best_effort;
  j.arrival = time_point{unit * below(6)};
  j.deadline = below(5) == 0 ? no_deadline : now + unit * below(40);
  j.total = unit * below(8);
  j.remaining = unit * below(8);
  j.head = below(9) == 0 ? duration{below(3) << 40} : unit * below(4);
}

/// Picks until the policy is empty; the ids of the picked jobs, in order.
template <class P>
std::vector<std::uint64_t> drain(P& p, time_point now = {}) {
  std::vector<std::uint64_t> ids;
  while (job* j = p.try_pick(now)) ids.push_back(index(j->id));
  return ids;
}

/// A policy in terms of jobs and clients, with the states that it keeps of them. The states of a
/// workload's jobs are one array, in the order of the jobs; other states are created at their first
/// use.
template <class P>
class on_jobs {
public:
  /// Constructs the policy from the result of a function.
  template <class Make>
  struct made {
    Make make;
  };

  on_jobs() = default;
  template <class... Arguments>
  explicit on_jobs(workload& w, Arguments&&... arguments)
      : of_workload_(std::make_unique<typename P::per_job[]>(w.size())),
        first_(w.by_address().front()), count_(w.size()),
        policy_(std::forward<Arguments>(arguments)...) {
    create_states(w);
  }
  template <class Make>
  on_jobs(workload& w, made<Make> from)
      : of_workload_(std::make_unique<typename P::per_job[]>(w.size())),
        first_(w.by_address().front()), count_(w.size()), policy_(from.make()) {
    create_states(w);
  }
  template <class Make>
  explicit on_jobs(made<Make> from) : policy_(from.make()) {}

  void enqueue(job& j, time_point now) noexcept { policy_.enqueue(state_of(j), now); }
  [[nodiscard]] job* try_pick(time_point now) noexcept { return job_of(policy_.try_pick(now)); }
  [[nodiscard]] job* try_pick(service_class of, time_point now) noexcept {
    return job_of(policy_.try_pick(of, now));
  }
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

  /// Whether one of the hooks is linked that a policy's state of a job usually has.
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
  void create_states(workload& w) {
    for (std::size_t i = 0; i < w.clients(); ++i) static_cast<void>(state_of(w.owner(i)));
    for (job* j : w.by_address()) static_cast<void>(state_of(*j));
  }

  std::map<const client*, std::unique_ptr<per_client_t<P>>> clients_;
  std::map<const job*, std::unique_ptr<typename P::per_job>> others_;
  std::unique_ptr<typename P::per_job[]> of_workload_;
  const job* first_ = nullptr;
  std::size_t count_ = 0;
  P policy_; ///< destroyed before the states
};

} // namespace gsched::conformance

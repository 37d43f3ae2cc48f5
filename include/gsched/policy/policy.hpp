// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/job/job.hpp>

#include <concepts>
#include <cstddef>
#include <string_view>

namespace gsched {

/// A job as a policy holds it: the base of what the policy keeps of each job, its `per_job`. It
/// gives the job's facts: `j->deadline`.
class queued_job {
public:
  [[nodiscard]] const job& operator*() const noexcept { return *job_; }
  [[nodiscard]] const job* operator->() const noexcept { return job_; }
  [[nodiscard]] job& bound() const noexcept { return *job_; }

  /// Before the first call with it. A policy that needs its state of the job's client, such as an
  /// account, hides this by one of its own that keeps it.
  template <class PerClient>
  void bind(job& j, PerClient&) noexcept {
    job_ = &j;
  }

private:
  job* job_ = nullptr;
};

/// A client as a policy knows it: the base of what the policy keeps of each client, its
/// `per_client`.
class known_client {
public:
  [[nodiscard]] const client& operator*() const noexcept { return *client_; }
  [[nodiscard]] const client* operator->() const noexcept { return client_; }
  void bind(const client& c) noexcept { client_ = &c; }

private:
  const client* client_ = nullptr;
};

/// What P keeps of each client: its per_client, or known_client if it declares none.
template <class P>
struct per_client_of {
  using type = known_client;
};
template <class P>
  requires requires { typename P::per_client; }
struct per_client_of<P> {
  using type = typename P::per_client;
};
template <class P>
using per_client_t = typename per_client_of<P>::type;

// Version 14 of the formatter takes compound requirements apart.
// clang-format off

/// State that is stored for a policy with each job, and each client: default-constructible, in
/// place from bind until the job has ended, or the client has gone.
template <class S, class C>
concept policy_state_of_job = std::default_initializable<S> && requires(S s, const S cs, job& j, C& c) {
  { s.bind(j, c) } noexcept;
  { *cs } noexcept -> std::same_as<const job&>;
  { cs.bound() } noexcept -> std::same_as<job&>;
};
template <class C>
concept policy_state_of_client = std::default_initializable<C> && requires(C s, const client& c) {
  { s.bind(c) } noexcept;
};

/// Orders waiting jobs and says how long the chosen one may run. Of each job it keeps a `per_job`,
/// of each client a `per_client`, which whoever admits jobs stores and binds. A model also keeps:
///  P1 conservation  each enqueued job leaves once, by try_pick or by erase.
///  P2 no idling     try_pick(now) is null if and only if size() == 0.
///  P3 determinism   answers depend on the calls alone: no clock, random source or address.
///  P4 ties          equal keys leave in rising job::id.
///  P5 hot path      no allocation, lock or throw.
///  P6 preemption    if wants_preempt(r, now), then r enqueued now is not picked next.
///  P7 end           when it is destroyed, no state of a job or of a client is linked any more.
/// The caller owes: `now` never falls; a job is in at most one policy; a job's facts do not change
/// while it is in one; a picked job is enqueued again while it has more to dispatch.
template <class P>
concept policy = std::default_initializable<P> && !std::copyable<P> &&
    policy_state_of_client<per_client_t<P>> &&
    policy_state_of_job<typename P::per_job, per_client_t<P>> &&
    requires(P p, const P c, typename P::per_job& j, const typename P::per_job& cj, time_point now) {
  { P::name } -> std::convertible_to<std::string_view>;
  { p.enqueue(j, now) } noexcept -> std::same_as<void>;
  { p.try_pick(now) } noexcept -> std::same_as<typename P::per_job*>;
  { p.erase(j) } noexcept -> std::same_as<void>;
  { c.wants_preempt(cj, now) } noexcept -> std::same_as<bool>;
  { c.slice(cj) } noexcept -> std::same_as<duration>;
  { c.size() } noexcept -> std::same_as<std::size_t>;
};

/// A policy that can refuse a job before its first enqueue. A model also keeps:
///  A1 pure     admits changes nothing.
///  A2 honest   a refused job could not have been served as the policy promises, or would break
///              such a promise to another.
template <class P>
concept admitting_policy = policy<P> &&
    requires(const P c, const typename P::per_job& j, time_point now) {
  { c.admits(j, now) } noexcept -> std::same_as<bool>;
};

/// An admitting policy that follows the jobs it has admitted wherever they are: in it, on the
/// device, or waiting for what it does not know of, such as an instance of their model. A model
/// also keeps:
///  F1 whole    from entered(j) to left(j) the job counts with all that it has left, in the policy
///              or not; one that has not entered counts while it is in the policy.
///  F2 passive  of these calls none changes the order of jobs.
/// The caller owes: entered once for a job that was admitted, before its first enqueue; submitted
/// and landed in pairs for each of its segments, `done` where that was served and not taken back;
/// left once, in no policy and with nothing in flight.
template <class P>
concept follows_work = admitting_policy<P> &&
    requires(P p, typename P::per_job& j, duration expected, bool done, time_point now) {
  { p.entered(j, now) } noexcept -> std::same_as<void>;
  { p.submitted(j, expected, now) } noexcept -> std::same_as<void>;
  { p.landed(j, expected, done, now) } noexcept -> std::same_as<void>;
  { p.left(j, done, now) } noexcept -> std::same_as<void>;
};

/// A policy that serves real-time jobs before best-effort ones, and can be asked for either class
/// alone. A model also keeps:
///  R1 first     try_pick(now) gives a real-time job while one waits.
///  R2 by class  try_pick(c, now) gives what try_pick(now) would if only jobs of class c waited; it
///               is null if and only if size(c) == 0.
template <class P>
concept serves_real_time_first = policy<P> &&
    requires(P p, const P c, service_class of, time_point now) {
  { p.try_pick(of, now) } noexcept -> std::same_as<typename P::per_job*>;
  { c.size(of) } noexcept -> std::same_as<std::size_t>;
};

/// A policy whose state of a client links it to others, and that is told to forget the client
/// before that state goes. The client has no waiting job then.
template <class P>
concept forgets_clients = policy<P> && requires(P p, per_client_t<P>& c) {
  { p.forget(c) } noexcept -> std::same_as<void>;
};
/// Says what P lacks of a policy: one assertion for each requirement, in the concept's order.
template <class P>
struct policy_requirements {
  static_assert(std::default_initializable<P>, "a policy can be made without arguments");
  static_assert(!std::copyable<P>, "a policy is not copyable: it links jobs");
  static_assert(
      requires { { P::name } -> std::convertible_to<std::string_view>; },
      "a policy has: static constexpr std::string_view name");
  static_assert(
      requires { typename P::per_job; },
      "a policy has a type per_job, derived from queued_job: what it keeps of each job");
  static_assert(policy_state_of_client<per_client_t<P>>,
                "a policy's per_client, if it has one, derives from known_client");

  template <class J>
  struct of_jobs {
    static_assert(policy_state_of_job<J, per_client_t<P>>,
                  "a policy's per_job derives from queued_job");
    static_assert(
        requires(P p, J& j, time_point now) { { p.enqueue(j, now) } noexcept -> std::same_as<void>; },
        "a policy has: void enqueue(per_job&, time_point) noexcept");
    static_assert(
        requires(P p, time_point now) { { p.try_pick(now) } noexcept -> std::same_as<J*>; },
        "a policy has: per_job* try_pick(time_point) noexcept");
    static_assert(
        requires(P p, J& j) { { p.erase(j) } noexcept -> std::same_as<void>; },
        "a policy has: void erase(per_job&) noexcept");
    static_assert(
        requires(const P c, const J& j, time_point now) {
          { c.wants_preempt(j, now) } noexcept -> std::same_as<bool>;
        },
        "a policy has: bool wants_preempt(const per_job&, time_point) const noexcept");
    static_assert(
        requires(const P c, const J& j) { { c.slice(j) } noexcept -> std::same_as<duration>; },
        "a policy has: duration slice(const per_job&) const noexcept");
    static_assert(
        requires(const P c) { { c.size() } noexcept -> std::same_as<std::size_t>; },
        "a policy has: std::size_t size() const noexcept");
    static constexpr bool hold = true;
  };
  static constexpr bool hold = of_jobs<typename P::per_job>::hold;
};
// clang-format on

/// Whether p takes the job; a policy that refuses nobody takes all.
template <policy P>
[[nodiscard]] bool admits(const P& p, const typename P::per_job& j, time_point now) noexcept {
  if constexpr (admitting_policy<P>)
    return p.admits(j, now);
  else
    return true;
}

} // namespace gsched

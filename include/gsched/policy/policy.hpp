// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/job/job.hpp>

#include <concepts>
#include <cstddef>
#include <string_view>

namespace gsched {

/// Base of a policy's `per_job`, the state that the policy keeps of each job. It gives access to
/// the facts of the job: `j->deadline`.
class queued_job {
public:
  [[nodiscard]] const job& operator*() const noexcept { return *job_; }
  [[nodiscard]] const job* operator->() const noexcept { return job_; }
  [[nodiscard]] job& bound() const noexcept { return *job_; }

  /// Called before any other call with this job. A policy that needs its state of the job's client,
  /// such as an account, hides this function with its own, which stores the reference.
  template <class PerClient>
  void bind(job& j, PerClient&) noexcept {
    job_ = &j;
  }

private:
  job* job_ = nullptr;
};

/// Base of a policy's `per_client`, the state that the policy keeps of each client.
class known_client {
public:
  [[nodiscard]] const client& operator*() const noexcept { return *client_; }
  [[nodiscard]] const client* operator->() const noexcept { return client_; }
  void bind(const client& c) noexcept { client_ = &c; }

private:
  const client* client_ = nullptr;
};

/// The type of P's state of a client: its per_client, or known_client if it declares none.
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

/// State that is stored for a policy with each job or client: default-constructible; it keeps its
/// address from bind() until the job has ended or the client is removed.
template <class S, class C>
concept policy_state_of_job =
    std::default_initializable<S> && requires(S s, const S cs, job& j, C& c) {
      { s.bind(j, c) } noexcept;
      { *cs } noexcept -> std::same_as<const job&>;
      { cs.bound() } noexcept -> std::same_as<job&>;
    };
template <class C>
concept policy_state_of_client = std::default_initializable<C> && requires(C s, const client& c) {
  { s.bind(c) } noexcept;
};

/// Orders waiting jobs and decides how long the picked one may run. It keeps a `per_job` for each
/// job and a `per_client` for each client; the caller that admits jobs stores and binds them. A
/// model also keeps:
///  P1 conservation  each enqueued job leaves once, by try_pick or by erase.
///  P2 no idling     try_pick(now) is null if and only if size() == 0.
///  P3 determinism   results depend on the calls alone: no clock, random source or address.
///  P4 ties          equal keys leave in rising job::id.
///  P5 hot path      no allocation, lock or throw.
///  P6 preemption    if wants_preempt(r, now), then r, enqueued now, is not picked next.
///  P7 end           after its destruction no state of a job or of a client is linked.
/// The caller guarantees: `now` never decreases; a job is in at most one policy; the facts of a job
/// do not change while it is in a policy; a picked job is enqueued again while it has more work to
/// dispatch.
template <class P>
concept policy =
    std::default_initializable<P> && !std::copyable<P> && policy_state_of_client<per_client_t<P>> &&
    policy_state_of_job<typename P::per_job, per_client_t<P>> &&
    requires(P p, const P c, typename P::per_job& j, const typename P::per_job& cj,
             time_point now) {
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
///              such a promise to another job.
template <class P>
concept admitting_policy =
    policy<P> && requires(const P c, const typename P::per_job& j, time_point now) {
      { c.admits(j, now) } noexcept -> std::same_as<bool>;
    };

/// An admitting policy that follows the jobs that it has admitted wherever they are: in the policy,
/// on the device, or waiting for something that the policy does not know, such as an instance of
/// their model. A model also keeps:
///  F1 whole    from entered(j) to left(j) the job counts with all its remaining work, in the
///              policy or not; a job that has not entered counts while it is in the policy.
///  F2 passive  none of these calls changes the order of jobs.
/// The caller guarantees: entered once for an admitted job, before its first enqueue; submitted and
/// landed in pairs for each of its segments, with `done` if the segment was served and not taken
/// back; left once, when the job is in no policy and nothing of it is in flight.
template <class P>
concept follows_work =
    admitting_policy<P> &&
    requires(P p, typename P::per_job& j, duration expected, bool done, time_point now) {
      { p.entered(j, now) } noexcept -> std::same_as<void>;
      { p.submitted(j, expected, now) } noexcept -> std::same_as<void>;
      { p.landed(j, expected, done, now) } noexcept -> std::same_as<void>;
      { p.left(j, done, now) } noexcept -> std::same_as<void>;
    };

/// A policy that serves real-time jobs before best-effort jobs, and can be asked for either class
/// alone. A model also keeps:
///  R1 first     try_pick(now) returns a real-time job while one waits.
///  R2 by class  try_pick(c, now) returns what try_pick(now) would return if only jobs of class c
///               waited; it is null if and only if size(c) == 0.
template <class P>
concept serves_real_time_first =
    policy<P> && requires(P p, const P c, service_class of, time_point now) {
      { p.try_pick(of, now) } noexcept -> std::same_as<typename P::per_job*>;
      { c.size(of) } noexcept -> std::same_as<std::size_t>;
    };

/// A policy that links its states of clients, and so has to forget a client before that state is
/// destroyed. The client has no waiting job then.
template <class P>
concept forgets_clients = policy<P> && requires(P p, per_client_t<P>& c) {
  { p.forget(c) } noexcept -> std::same_as<void>;
};
/// Reports what P lacks of a policy: one assertion for each requirement, in the order of the
/// concept.
template <class P>
struct policy_requirements {
  static_assert(std::default_initializable<P>, "a policy can be made without arguments");
  static_assert(!std::copyable<P>, "a policy is not copyable: it links jobs");
  static_assert(
      requires {
        { P::name } -> std::convertible_to<std::string_view>;
      }, "a policy has: static constexpr std::string_view name");
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
        requires(P p, J& j, time_point now) {
          { p.enqueue(j, now) } noexcept -> std::same_as<void>;
        }, "a policy has: void enqueue(per_job&, time_point) noexcept");
    static_assert(
        requires(P p, time_point now) {
          { p.try_pick(now) } noexcept -> std::same_as<J*>;
        }, "a policy has: per_job* try_pick(time_point) noexcept");
    static_assert(
        requires(P p, J& j) {
          { p.erase(j) } noexcept -> std::same_as<void>;
        }, "a policy has: void erase(per_job&) noexcept");
    static_assert(
        requires(const P c, const J& j, time_point now) {
          { c.wants_preempt(j, now) } noexcept -> std::same_as<bool>;
        }, "a policy has: bool wants_preempt(const per_job&, time_point) const noexcept");
    static_assert(
        requires(const P c, const J& j) {
          { c.slice(j) } noexcept -> std::same_as<duration>;
        }, "a policy has: duration slice(const per_job&) const noexcept");
    static_assert(
        requires(const P c) {
          { c.size() } noexcept -> std::same_as<std::size_t>;
        }, "a policy has: std::size_t size() const noexcept");
    static constexpr bool hold = true;
  };
  static constexpr bool hold = of_jobs<typename P::per_job>::hold;
};

/// Whether p admits the job; a policy without admission admits all.
template <policy P>
[[nodiscard]] bool admits(const P& p, const typename P::per_job& j, time_point now) noexcept {
  if constexpr (admitting_policy<P>)
    return p.admits(j, now);
  else
    return true;
}

} // namespace gsched

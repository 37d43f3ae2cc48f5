// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/job/job.hpp>

#include <concepts>
#include <cstddef>
#include <string_view>

namespace gsched {

/// Orders waiting jobs and says how long the chosen one may run. A model also keeps:
///  P1 conservation  each enqueued job leaves once, by try_pick or by erase.
///  P2 no idling     try_pick(now) is null if and only if size() == 0.
///  P3 determinism   answers depend on the calls alone: no clock, random source or address.
///  P4 ties          equal keys leave in rising job::id.
///  P5 hot path      no allocation, lock or throw.
///  P6 preemption    if wants_preempt(r, now), then r enqueued now is not picked next.
/// The caller owes: `now` never falls; a job is in at most one policy; a job's facts do not change
/// while it is in one; a picked job is enqueued again while it has more to dispatch.
template <class P>
concept policy = std::default_initializable<P> && !std::copyable<P> &&
                 requires(P p, const P c, job& j, const job& cj, time_point now) {
  { P::name } -> std::convertible_to<std::string_view>;
  { p.enqueue(j, now) }
  noexcept->std::same_as<void>;
  { p.try_pick(now) }
  noexcept->std::same_as<job*>;
  { p.erase(j) }
  noexcept->std::same_as<void>;
  { c.wants_preempt(cj, now) }
  noexcept->std::same_as<bool>;
  { c.slice(cj) }
  noexcept->std::same_as<duration>;
  { c.size() }
  noexcept->std::same_as<std::size_t>;
};

/// A policy that can refuse a job before its first enqueue. A model also keeps:
///  A1 pure     admits changes nothing.
///  A2 honest   a refused job could not have been served as the policy promises, or would break
///  such
///              a promise to another.
template <class P>
concept admitting_policy = policy<P> && requires(const P c, const job& j, time_point now) {
  { c.admits(j, now) }
  noexcept->std::same_as<bool>;
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
// clang-format off
template <class P>
concept follows_work = admitting_policy<P> &&
    requires(P p, job& j, duration expected, bool done, time_point now) {
      { p.entered(j, now) } noexcept -> std::same_as<void>;
      { p.submitted(j, expected, now) } noexcept -> std::same_as<void>;
      { p.landed(j, expected, done, now) } noexcept -> std::same_as<void>;
      { p.left(j, done, now) } noexcept -> std::same_as<void>;
    };
// clang-format on

/// A policy that serves real-time jobs before best-effort ones, and can be asked for either class
/// alone. A model also keeps:
///  R1 first     try_pick(now) gives a real-time job while one waits.
///  R2 by class  try_pick(c, now) gives what try_pick(now) would if only jobs of class c waited; it
///               is null if and only if size(c) == 0.
template <class P>
concept serves_real_time_first = policy<P> &&
    requires(P p, const P c, service_class of, time_point now) {
  { p.try_pick(of, now) }
  noexcept->std::same_as<job*>;
  { c.size(of) }
  noexcept->std::same_as<std::size_t>;
};

/// Whether p takes the job; a policy that refuses nobody takes all.
template <policy P>
[[nodiscard]] bool admits(const P& p, const job& j, time_point now) noexcept {
  if constexpr (admitting_policy<P>)
    return p.admits(j, now);
  else
    return true;
}

} // namespace gsched

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/job/job.hpp>
#include <gsched/policy/name.hpp>
#include <gsched/policy/policy.hpp>

#include <concepts>
#include <cstddef>
#include <string_view>

namespace gsched {

/// A policy with accounts of clients, which it must be told to forget before they are destroyed.
template <class P>
concept forgets_clients = policy<P> && requires(P p, client& c) {
  p.forget(c);
};

/// Two classes: real-time jobs are ordered by A and go before best-effort jobs, which B orders.
///
/// Order    service class, then A's or B's.
/// Errors   none; enqueueing a linked job is a bug (asserted).
/// Cost     A's or B's.
/// Threads  one owner; no locking.
template <policy A, policy B>
class priority {
  static_assert(!(
                    requires { typename A::uses_account; } &&
                    requires { typename B::uses_account; }),
                "a client has one account");
  static constexpr std::string_view opening = "priority<", comma = ",", closing = ">";

public:
  static constexpr std::string_view name =
      joined_name<&opening, &A::name, &comma, &B::name, &closing>::value;

  priority() = default;
  /// Of policies that are made with arguments: each function returns one.
  template <std::invocable MakeA, std::invocable MakeB>
  priority(MakeA make_first, MakeB make_second) : first_(make_first()), second_(make_second()) {}

  void enqueue(job& j, time_point now) noexcept {
    is_first(j) ? first_.enqueue(j, now) : second_.enqueue(j, now);
  }

  [[nodiscard]] job* try_pick(time_point now) noexcept {
    job* picked = first_.try_pick(now);
    return picked != nullptr ? picked : second_.try_pick(now);
  }

  /// As serves_real_time_first.
  [[nodiscard]] job* try_pick(service_class of, time_point now) noexcept {
    return of == service_class::real_time ? first_.try_pick(now) : second_.try_pick(now);
  }

  void erase(job& j) noexcept { is_first(j) ? first_.erase(j) : second_.erase(j); }

  /// Any waiting real-time job preempts a best-effort one; within a class A or B says.
  [[nodiscard]] bool wants_preempt(const job& running, time_point now) const noexcept {
    if (is_first(running)) return first_.wants_preempt(running, now);
    return first_.size() > 0 || second_.wants_preempt(running, now);
  }

  [[nodiscard]] bool admits(const job& j, time_point now) const noexcept
      requires(admitting_policy<A> || admitting_policy<B>) {
    return is_first(j) ? gsched::admits(first_, j, now) : gsched::admits(second_, j, now);
  }

  /// As deficit_over: before a client without jobs is destroyed while this policy lives on.
  void forget(client& c) noexcept requires(forgets_clients<A> || forgets_clients<B>) {
    if constexpr (forgets_clients<A>) first_.forget(c);
    if constexpr (forgets_clients<B>) second_.forget(c);
  }

  /// Each class follows its own jobs alone, so a refusal is honest; what best-effort jobs take of
  /// the device shows in how late the others end.
  void entered(job& j, time_point now) noexcept requires(follows_work<A> || follows_work<B>) {
    follow(j, [&](auto& p) { p.entered(j, now); });
  }
  void submitted(job& j, duration expected, time_point now) noexcept
      requires(follows_work<A> || follows_work<B>) {
    follow(j, [&](auto& p) { p.submitted(j, expected, now); });
  }
  void landed(job& j, duration expected, bool done, time_point now) noexcept
      requires(follows_work<A> || follows_work<B>) {
    follow(j, [&](auto& p) { p.landed(j, expected, done, now); });
  }
  void left(job& j, bool finished, time_point now) noexcept
      requires(follows_work<A> || follows_work<B>) {
    follow(j, [&](auto& p) { p.left(j, finished, now); });
  }

  [[nodiscard]] duration slice(const job& j) const noexcept {
    return is_first(j) ? first_.slice(j) : second_.slice(j);
  }
  [[nodiscard]] std::size_t size() const noexcept { return first_.size() + second_.size(); }
  [[nodiscard]] std::size_t size(service_class of) const noexcept {
    return of == service_class::real_time ? first_.size() : second_.size();
  }

  [[nodiscard]] A& first() noexcept { return first_; }
  [[nodiscard]] B& second() noexcept { return second_; }
  [[nodiscard]] const A& first() const noexcept { return first_; }
  [[nodiscard]] const B& second() const noexcept { return second_; }

private:
  static bool is_first(const job& j) noexcept { return j.service == service_class::real_time; }

  template <class F>
  void follow(const job& j, F f) noexcept {
    if constexpr (follows_work<A>)
      if (is_first(j)) f(first_);
    if constexpr (follows_work<B>)
      if (!is_first(j)) f(second_);
  }

  A first_;
  B second_;
};

} // namespace gsched

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

/// Two classes: real-time jobs, ordered by A, go before best-effort jobs, ordered by B.
///
/// Order    service class, then that of A or B.
/// Errors   none; enqueueing a linked job is a bug (asserted).
/// Cost     that of A or B.
/// Threads  one owner; no locking.
template <policy A, policy B>
class priority {
  static constexpr std::string_view opening = "priority<", comma = ",", closing = ">";

public:
  static constexpr std::string_view name =
      joined_name<&opening, &A::name, &comma, &B::name, &closing>::value;

  /// The states of a client in both policies.
  struct per_client {
    void bind(const client& c) noexcept {
      first.bind(c);
      second.bind(c);
    }
    per_client_t<A> first{};
    per_client_t<B> second{};
  };
  /// A job is in A or in B, by its class, and holds the state of both.
  struct of_first : A::per_job {};
  struct of_second : B::per_job {};
  /// The states of a job in both policies.
  struct per_job : of_first, of_second {
    void bind(job& j, per_client& c) noexcept {
      of_first::bind(j, c.first);
      of_second::bind(j, c.second);
    }
    [[nodiscard]] const job& operator*() const noexcept { return *in_first(*this); }
    [[nodiscard]] const job* operator->() const noexcept { return &*in_first(*this); }
    [[nodiscard]] job& bound() const noexcept { return in_first(*this).bound(); }
  };

  priority() = default;
  /// For policies with constructor arguments: each function returns a policy.
  template <std::invocable MakeA, std::invocable MakeB>
  priority(MakeA make_first, MakeB make_second) : first_(make_first()), second_(make_second()) {}

  void enqueue(per_job& j, time_point now) noexcept {
    is_first(j) ? first_.enqueue(in_first(j), now) : second_.enqueue(in_second(j), now);
  }

  [[nodiscard]] per_job* try_pick(time_point now) noexcept {
    per_job* const picked = try_pick(service_class::real_time, now);
    return picked != nullptr ? picked : try_pick(service_class::best_effort, now);
  }

  /// As serves_real_time_first.
  [[nodiscard]] per_job* try_pick(service_class of, time_point now) noexcept {
    if (of == service_class::real_time)
      return static_cast<per_job*>(static_cast<of_first*>(first_.try_pick(now)));
    return static_cast<per_job*>(static_cast<of_second*>(second_.try_pick(now)));
  }

  void erase(per_job& j) noexcept {
    is_first(j) ? first_.erase(in_first(j)) : second_.erase(in_second(j));
  }

  /// Any waiting real-time job preempts a best-effort job; within a class A or B decides.
  [[nodiscard]] bool wants_preempt(const per_job& running, time_point now) const noexcept {
    if (is_first(running)) return first_.wants_preempt(in_first(running), now);
    return first_.size() > 0 || second_.wants_preempt(in_second(running), now);
  }

  [[nodiscard]] bool admits(const per_job& j, time_point now) const noexcept
    requires(admitting_policy<A> || admitting_policy<B>)
  {
    return is_first(j) ? gsched::admits(first_, in_first(j), now)
                       : gsched::admits(second_, in_second(j), now);
  }

  /// As deficit_over: call before a client without jobs is destroyed while this policy lives on.
  void forget(per_client& c) noexcept
    requires(forgets_clients<A> || forgets_clients<B>)
  {
    if constexpr (forgets_clients<A>) first_.forget(c.first);
    if constexpr (forgets_clients<B>) second_.forget(c.second);
  }

  /// Each class follows only its own jobs, so that a refusal is honest. The device time that
  /// best-effort jobs take shows as lateness of the others.
  void entered(per_job& j, time_point now) noexcept
    requires(follows_work<A> || follows_work<B>)
  {
    follow(j, [&](auto& p, auto& of) { p.entered(of, now); });
  }
  void submitted(per_job& j, duration expected, time_point now) noexcept
    requires(follows_work<A> || follows_work<B>)
  {
    follow(j, [&](auto& p, auto& of) { p.submitted(of, expected, now); });
  }
  void landed(per_job& j, duration expected, bool done, time_point now) noexcept
    requires(follows_work<A> || follows_work<B>)
  {
    follow(j, [&](auto& p, auto& of) { p.landed(of, expected, done, now); });
  }
  void left(per_job& j, bool finished, time_point now) noexcept
    requires(follows_work<A> || follows_work<B>)
  {
    follow(j, [&](auto& p, auto& of) { p.left(of, finished, now); });
  }

  [[nodiscard]] duration slice(const per_job& j) const noexcept {
    return is_first(j) ? first_.slice(in_first(j)) : second_.slice(in_second(j));
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
  static bool is_first(const per_job& j) noexcept { return j->service == service_class::real_time; }
  static of_first& in_first(per_job& j) noexcept { return j; }
  static of_second& in_second(per_job& j) noexcept { return j; }
  static const of_first& in_first(const per_job& j) noexcept { return j; }
  static const of_second& in_second(const per_job& j) noexcept { return j; }

  template <class F>
  void follow(per_job& j, F f) noexcept {
    if constexpr (follows_work<A>)
      if (is_first(j)) f(first_, in_first(j));
    if constexpr (follows_work<B>)
      if (!is_first(j)) f(second_, in_second(j));
  }

  A first_;
  B second_;
};

} // namespace gsched

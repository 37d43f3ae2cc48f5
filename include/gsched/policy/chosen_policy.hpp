// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/job/job.hpp>
#include <gsched/policy/policy.hpp>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>

namespace gsched {

/// One of several policies, selected at run time: for programs whose users name the policy. The
/// dispatcher and all above it are then compiled once, and not once for each policy.
///
///     named_policy order = make_policy("srpt+deficit"); // policy/names.hpp
///     dispatcher d(device, order, account, listener);
///
/// It decides as the chosen policy does. Calls of optional concepts go to a chosen policy that
/// models them; otherwise each job is admitted and the other calls have no effect. It does not
/// model serves_real_time_first: for lanes of real-time jobs use `priority<edf,
/// chosen_policy<...>>`. `deficit_over<chosen_policy<...>>` would ask the first of Ps for
/// admission: choose among policies `deficit_over<...>` instead. It may be moved before its first
/// job, not later.
///
/// Order    that of the chosen policy.
/// Errors   none; enqueueing a linked job is a bug (asserted).
/// Cost     that of the chosen policy, and an indirect call for each but size(): up to 6 ns for
///          enqueue and try_pick together. Never allocates. A per_job has room for the largest of
///          the states of Ps, a per_client holds all of them, and the policy is as large as the
///          largest of Ps: 216 bytes, 328 bytes and 8 KB for named_policy.
/// Threads  one owner; no locking.
template <policy... Ps>
class chosen_policy {
  template <std::size_t I>
  using nth = std::tuple_element_t<I, std::tuple<Ps...>>;
  template <class P>
  static constexpr std::size_t occurrences = (std::size_t{std::same_as<P, Ps>} + ...);

public:
  static constexpr std::string_view name = "chosen";

  /// The states of a client in all policies.
  struct per_client {
    void bind(const client& c) noexcept {
      std::apply([&](auto&... each) { (each.bind(c), ...); }, states);
    }
    std::tuple<per_client_t<Ps>...> states{};
  };

  /// The state of a job in the chosen policy. bind() does not know which policy that is, so the
  /// first call of a policy with this job constructs the state.
  class per_job {
  public:
    per_job() noexcept {} // not defaulted, or `per_job{}` sets all of room_ to zero
    per_job(const per_job&) = delete;
    per_job& operator=(const per_job&) = delete;
    ~per_job() { drop(); }

    void bind(job& j, per_client& c) noexcept {
      job_ = &j;
      client_ = &c;
      if (in_ != none)
        select(in_, [&]<std::size_t I>(std::in_place_index_t<I>) {
          held<I>().bind(j, std::get<I>(c.states));
        });
    }
    [[nodiscard]] const job& operator*() const noexcept { return *job_; }
    [[nodiscard]] const job* operator->() const noexcept { return job_; }
    [[nodiscard]] job& bound() const noexcept { return *job_; }

  private:
    friend chosen_policy;
    static constexpr std::uint8_t none = 255;
    static_assert(sizeof...(Ps) < none);

    /// The state in policy I, and the way back from it.
    template <std::size_t I>
    struct state_in : nth<I>::per_job {
      per_job* whole = nullptr; ///< while the job is in the policy
    };
    template <std::size_t... I>
    static constexpr std::size_t largest(std::index_sequence<I...>) {
      return std::max({sizeof(state_in<I>)...});
    }
    template <std::size_t... I>
    static constexpr std::size_t most_aligned(std::index_sequence<I...>) {
      return std::max({alignof(state_in<I>)...});
    }

    /// The state in policy I, constructed at the first call.
    template <std::size_t I>
    [[nodiscard]] state_in<I>& state() const noexcept {
      if (in_ != I) [[unlikely]]
        construct<I>();
      return held<I>();
    }
    template <std::size_t I>
    [[nodiscard]] state_in<I>& held() const noexcept {
      return *std::launder(reinterpret_cast<state_in<I>*>(room_.data()));
    }
    template <std::size_t I>
    [[gnu::noinline, gnu::cold]] void construct() const noexcept {
      drop();
      std::construct_at(reinterpret_cast<state_in<I>*>(room_.data()));
      in_ = I;
      held<I>().bind(*job_, std::get<I>(client_->states));
    }
    void drop() const noexcept {
      if (in_ != none)
        select(in_, [&]<std::size_t I>(std::in_place_index_t<I>) { std::destroy_at(&held<I>()); });
      in_ = none;
    }

    job* job_ = nullptr;
    per_client* client_ = nullptr;
    mutable std::uint8_t in_ = none; ///< number of the policy whose state is in room_
    using all = std::index_sequence_for<Ps...>;
    alignas(most_aligned(all{})) mutable std::array<std::byte, largest(all{})> room_;
  };

  /// Chooses the first of Ps.
  chosen_policy() = default;
  /// Chooses P.
  template <class P>
    requires(occurrences<P> == 1)
  explicit chosen_policy(P p) : chosen_(std::in_place_type<P>, std::move(p)) {}
  /// Chooses policy I.
  template <std::size_t I>
  chosen_policy(std::in_place_index_t<I> i, nth<I> p) : chosen_(i, std::move(p)) {}

  /// Returns `f(std::in_place_index<I>, p)` for the chosen policy p, which is the I-th of Ps. All
  /// results of f have one type.
  template <class F>
  decltype(auto) visit(F&& f) {
    return visit_in(*this, f);
  }
  template <class F>
  decltype(auto) visit(F&& f) const {
    return visit_in(*this, f);
  }
  [[nodiscard]] std::string_view chosen_name() const noexcept {
    return visit([]<class P>(auto, const P&) { return std::string_view(P::name); });
  }

  void enqueue(per_job& j, time_point now) noexcept {
    calls_->enqueue(*this, j, now);
    ++size_;
  }
  [[nodiscard]] per_job* try_pick(time_point now) noexcept {
    per_job* const picked = calls_->try_pick(*this, now);
    size_ -= picked != nullptr;
    return picked;
  }
  void erase(per_job& j) noexcept {
    calls_->erase(*this, j);
    --size_;
  }
  [[nodiscard]] bool wants_preempt(const per_job& running, time_point now) const noexcept {
    return calls_->wants_preempt(*this, running, now);
  }
  [[nodiscard]] duration slice(const per_job& j) const noexcept { return calls_->slice(*this, j); }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  // Optional concepts -------------------------------------------------------------------------

  [[nodiscard]] bool admits(const per_job& j, time_point now) const noexcept
    requires(admitting_policy<Ps> || ...)
  {
    return visit([&]<std::size_t I, class P>(std::in_place_index_t<I>, const P& p) {
      if constexpr (admitting_policy<P>)
        return p.admits(j.template state<I>(), now);
      else
        return true;
    });
  }

  /// As deficit_over: call before a client without jobs is destroyed while this policy lives on.
  void forget(per_client& c) noexcept
    requires(forgets_clients<Ps> || ...)
  {
    visit([&]<std::size_t I, class P>(std::in_place_index_t<I>, P& p) {
      if constexpr (forgets_clients<P>) p.forget(std::get<I>(c.states));
    });
  }

  void entered(per_job& j, time_point now) noexcept
    requires(follows_work<Ps> || ...)
  {
    if (calls_->follows) follow(j, [=](auto& p, auto& of) { p.entered(of, now); });
  }
  void submitted(per_job& j, duration expected, time_point now) noexcept
    requires(follows_work<Ps> || ...)
  {
    if (calls_->follows) follow(j, [=](auto& p, auto& of) { p.submitted(of, expected, now); });
  }
  void landed(per_job& j, duration expected, bool done, time_point now) noexcept
    requires(follows_work<Ps> || ...)
  {
    if (calls_->follows) follow(j, [=](auto& p, auto& of) { p.landed(of, expected, done, now); });
  }
  void left(per_job& j, bool finished, time_point now) noexcept
    requires(follows_work<Ps> || ...)
  {
    if (calls_->follows) follow(j, [=](auto& p, auto& of) { p.left(of, finished, now); });
  }

private:
  /// Returns `f(std::in_place_index<I>)` for I == which, after O(log(Last - First)) branches.
  template <std::size_t First = 0, std::size_t Last = sizeof...(Ps), class F>
  static decltype(auto) select(std::size_t which, F&& f) {
    if constexpr (First + 1 == Last) {
      return f(std::in_place_index<First>);
    } else {
      constexpr std::size_t middle = (First + Last) / 2;
      return which < middle ? select<First, middle>(which, f) : select<middle, Last>(which, f);
    }
  }
  template <class Self, class F>
  static decltype(auto) visit_in(Self& self, F& f) {
    return select(self.chosen_.index(),
                  [&]<std::size_t I>(std::in_place_index_t<I> i) -> decltype(auto) {
                    return f(i, in<I>(self));
                  });
  }
  template <std::size_t I>
  [[nodiscard]] static auto& in(auto& self) noexcept {
    return *std::get_if<I>(&self.chosen_);
  }
  /// Out of line, so that a policy that does not model follows_work costs one branch.
  template <class F>
  [[gnu::noinline]] void follow(per_job& j, F f) noexcept {
    visit([&]<std::size_t I, class P>(std::in_place_index_t<I>, P& p) {
      if constexpr (follows_work<P>) f(p, j.template state<I>());
    });
  }

  /// The calls of a decision, made for policy I by `calls_of<I>`. They are functions of their own,
  /// so that the dispatcher's functions stay small enough to be inlined.
  struct calls {
    void (*enqueue)(chosen_policy&, per_job&, time_point) noexcept;
    per_job* (*try_pick)(chosen_policy&, time_point) noexcept;
    void (*erase)(chosen_policy&, per_job&) noexcept;
    bool (*wants_preempt)(const chosen_policy&, const per_job&, time_point) noexcept;
    duration (*slice)(const chosen_policy&, const per_job&) noexcept;
    bool follows; ///< the policy models follows_work
  };
  template <std::size_t I>
  struct calls_of {
    static void enqueue(chosen_policy& self, per_job& j, time_point now) noexcept {
      auto& state = j.template state<I>();
      state.whole = &j;
      in<I>(self).enqueue(state, now);
    }
    static per_job* try_pick(chosen_policy& self, time_point now) noexcept {
      using state_in = typename per_job::template state_in<I>;
      auto* const picked = static_cast<state_in*>(in<I>(self).try_pick(now));
      return picked == nullptr ? nullptr : picked->whole;
    }
    static void erase(chosen_policy& self, per_job& j) noexcept {
      in<I>(self).erase(j.template state<I>());
    }
    static bool wants_preempt(const chosen_policy& self, const per_job& running,
                              time_point now) noexcept {
      return in<I>(self).wants_preempt(running.template state<I>(), now);
    }
    static duration slice(const chosen_policy& self, const per_job& j) noexcept {
      return in<I>(self).slice(j.template state<I>());
    }
    static constexpr calls all{enqueue,       try_pick, erase,
                               wants_preempt, slice,    follows_work<nth<I>>};
  };

  std::variant<Ps...> chosen_;
  const calls* calls_ =
      select(chosen_.index(), []<std::size_t I>(std::in_place_index_t<I>) -> const calls* {
        return &calls_of<I>::all;
      });
  std::size_t size_ = 0; ///< that of the chosen policy, without a call
};

} // namespace gsched

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/job/job.hpp>
#include <gsched/policy/fifo.hpp>
#include <gsched/policy/policy.hpp>
#include <gsched/policy/priority.hpp>
#include <gsched/policy/start_policy.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <string_view>
#include <type_traits>
#include <utility>

namespace gsched::test {

/// Room for an object whose type is known at the first use.
template <std::size_t Size>
class any_state {
public:
  any_state() noexcept {} // not defaulted, or value-initialisation sets all of room_ to zero
  any_state(const any_state&) = delete;
  any_state& operator=(const any_state&) = delete;
  ~any_state() { drop(); }

  /// The T in it. If it has none, a new one, after `begin(t)`.
  template <class T, class F>
  [[nodiscard]] T& get(F begin) noexcept {
    static_assert(sizeof(T) <= Size && alignof(T) <= alignof(std::max_align_t));
    if (destroy_ != &destroy<T>) {
      drop();
      begin(*std::construct_at(reinterpret_cast<T*>(room_.data())));
      destroy_ = &destroy<T>;
    }
    return *std::launder(reinterpret_cast<T*>(room_.data()));
  }

private:
  template <class T>
  static void destroy(void* at) noexcept {
    std::destroy_at(static_cast<T*>(at));
  }
  void drop() noexcept {
    if (destroy_ != nullptr) destroy_(room_.data());
    destroy_ = nullptr;
  }

  void (*destroy_)(void*) noexcept = nullptr;
  alignas(std::max_align_t) std::array<std::byte, Size> room_;
};

/// Any policy behind virtual functions, or any that serves real-time jobs first: a dispatcher is
/// compiled once for all of them. It decides as the policy does, and orders jobs that have not
/// started as the policy's start_policy does. Each call of an optional concept goes to a policy
/// that models it; otherwise each job is admitted and the other calls have no effect.
template <bool RealTimeFirst>
class any_policy {
public:
  static constexpr std::string_view name = "any";

  /// The state of a client in the policy.
  struct per_client {
    void bind(const client& c) noexcept { of = &c; }
    template <policy P>
    [[nodiscard]] per_client_t<P>& in() noexcept {
      return state.template get<per_client_t<P>>([&](auto& s) { s.bind(*of); });
    }
    const client* of = nullptr;
    any_state<512> state{};
  };
  /// The state of a job in the policy, whose type the first call with this job knows.
  struct per_job : queued_job {
    void bind(job& j, per_client& c) noexcept {
      queued_job::bind(j, c);
      owner = &c;
      if (bind_state != nullptr) bind_state(*this);
    }
    per_client* owner = nullptr;
    mutable void (*bind_state)(const per_job&) noexcept = nullptr;
    mutable any_state<512> state{};
  };

  any_policy() : any_policy(std::make_unique<owned<smallest>>([] { return smallest(); })) {}
  /// The policy outlives it.
  template <class P>
    requires(!std::same_as<std::remove_const_t<P>, any_policy>) && policy<P> &&
            (serves_real_time_first<P> == RealTimeFirst)
  explicit any_policy(P& to) : any_policy(std::make_unique<calls_to<P>>(to)) {}

  void enqueue(per_job& j, time_point now) noexcept { to_->enqueue(j, now); }
  [[nodiscard]] per_job* try_pick(time_point now) noexcept { return to_->try_pick(now); }
  void erase(per_job& j) noexcept { to_->erase(j); }
  [[nodiscard]] bool wants_preempt(const per_job& running, time_point now) const noexcept {
    return to_->wants_preempt(running, now);
  }
  [[nodiscard]] duration slice(const per_job& j) const noexcept { return to_->slice(j); }
  [[nodiscard]] std::size_t size() const noexcept { return to_->size(); }

  [[nodiscard]] per_job* try_pick(service_class of, time_point now) noexcept
    requires RealTimeFirst
  {
    return to_->try_pick(of, now);
  }
  [[nodiscard]] std::size_t size(service_class of) const noexcept
    requires RealTimeFirst
  {
    return to_->size(of);
  }

  [[nodiscard]] bool admits(const per_job& j, time_point now) const noexcept {
    return to_->admits(j, now);
  }
  void entered(per_job& j, time_point now) noexcept { to_->entered(j, now); }
  void submitted(per_job& j, duration expected, time_point now) noexcept {
    to_->submitted(j, expected, now);
  }
  void landed(per_job& j, duration expected, bool done, time_point now) noexcept {
    to_->landed(j, expected, done, now);
  }
  void left(per_job& j, bool done, time_point now) noexcept { to_->left(j, done, now); }
  void forget(per_client& c) noexcept { to_->forget(c); }

  /// As start_policy.
  [[nodiscard]] any_policy for_start() const { return any_policy(to_->for_start()); }

private:
  using smallest = std::conditional_t<RealTimeFirst, priority<fifo, fifo>, fifo>;

  struct calls {
    virtual ~calls() = default;
    virtual void enqueue(per_job&, time_point) noexcept = 0;
    virtual per_job* try_pick(time_point) noexcept = 0;
    virtual void erase(per_job&) noexcept = 0;
    virtual bool wants_preempt(const per_job&, time_point) const noexcept = 0;
    virtual duration slice(const per_job&) const noexcept = 0;
    virtual std::size_t size() const noexcept = 0;
    virtual per_job* try_pick(service_class, time_point) noexcept = 0;
    virtual std::size_t size(service_class) const noexcept = 0;
    virtual bool admits(const per_job&, time_point) const noexcept = 0;
    virtual void entered(per_job&, time_point) noexcept = 0;
    virtual void submitted(per_job&, duration, time_point) noexcept = 0;
    virtual void landed(per_job&, duration, bool, time_point) noexcept = 0;
    virtual void left(per_job&, bool, time_point) noexcept = 0;
    virtual void forget(per_client&) noexcept = 0;
    virtual std::unique_ptr<calls> for_start() const = 0;
  };

  template <class P>
  struct calls_to : calls {
    explicit calls_to(P& p) : to(p) {}

    /// The policy's state of the job, and the way back from it.
    struct state_of : P::per_job {
      per_job* whole = nullptr;
    };
    static state_of& state(const per_job& j) noexcept {
      return j.state.template get<state_of>([&](state_of& s) {
        s.whole = const_cast<per_job*>(&j);
        s.bind(j.bound(), j.owner->template in<P>());
        j.bind_state = [](const per_job& of) noexcept {
          state(of).bind(of.bound(), of.owner->template in<P>());
        };
      });
    }
    static per_job* whole(typename P::per_job* s) noexcept {
      return s == nullptr ? nullptr : static_cast<state_of*>(s)->whole;
    }

    void enqueue(per_job& j, time_point now) noexcept override { to.enqueue(state(j), now); }
    per_job* try_pick(time_point now) noexcept override { return whole(to.try_pick(now)); }
    void erase(per_job& j) noexcept override { to.erase(state(j)); }
    bool wants_preempt(const per_job& j, time_point now) const noexcept override {
      return to.wants_preempt(state(j), now);
    }
    duration slice(const per_job& j) const noexcept override { return to.slice(state(j)); }
    std::size_t size() const noexcept override { return to.size(); }
    per_job* try_pick(service_class of, time_point now) noexcept override {
      if constexpr (serves_real_time_first<P>) return whole(to.try_pick(of, now));
      std::abort(); // never called
    }
    std::size_t size(service_class of) const noexcept override {
      if constexpr (serves_real_time_first<P>) return to.size(of);
      std::abort();
    }
    bool admits(const per_job& j, time_point now) const noexcept override {
      return gsched::admits(to, state(j), now);
    }
    void entered(per_job& j, time_point now) noexcept override {
      if constexpr (follows_work<P>) to.entered(state(j), now);
    }
    void submitted(per_job& j, duration expected, time_point now) noexcept override {
      if constexpr (follows_work<P>) to.submitted(state(j), expected, now);
    }
    void landed(per_job& j, duration expected, bool done, time_point now) noexcept override {
      if constexpr (follows_work<P>) to.landed(state(j), expected, done, now);
    }
    void left(per_job& j, bool done, time_point now) noexcept override {
      if constexpr (follows_work<P>) to.left(state(j), done, now);
    }
    void forget(per_client& c) noexcept override {
      if constexpr (forgets_clients<P>) to.forget(c.template in<P>());
    }
    std::unique_ptr<calls> for_start() const override {
      return std::make_unique<owned<typename start_policy<P>::type>>(
          [&] { return start_policy<P>::like(to); });
    }
    P& to;
  };
  template <class P>
  struct owned final : calls_to<P> {
    template <class F>
    explicit owned(F make) : calls_to<P>(is), is(make()) {}
    P is;
  };

  explicit any_policy(std::unique_ptr<calls> to) : to_(std::move(to)) {}

  std::unique_ptr<calls> to_;
};

static_assert(follows_work<any_policy<false>> && forgets_clients<any_policy<false>>);
static_assert(!serves_real_time_first<any_policy<false>>);
static_assert(follows_work<any_policy<true>> && serves_real_time_first<any_policy<true>>);

} // namespace gsched::test

template <bool RealTimeFirst>
struct gsched::start_policy<gsched::test::any_policy<RealTimeFirst>> {
  using type = test::any_policy<RealTimeFirst>;
  [[nodiscard]] static type like(const type& p) { return p.for_start(); }
};

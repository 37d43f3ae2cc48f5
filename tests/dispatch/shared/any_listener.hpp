// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/id.hpp>
#include <gsched/core/time.hpp>
#include <gsched/device/device.hpp>
#include <gsched/dispatch/listener.hpp>
#include <gsched/job/job.hpp>

#include <concepts>
#include <exception>
#include <memory>
#include <type_traits>
#include <utility>

namespace gsched::test {

/// Any listener, behind virtual functions: a dispatcher is compiled once for all of them.
class any_listener {
public:
  /// The listener outlives it.
  template <class L>
    requires(!std::same_as<std::remove_const_t<L>, any_listener>) && listener<L>
  explicit any_listener(L& to) : to_(std::make_unique<calls_to<L>>(to)) {}

  void on_arrival(const job& j, void* user, time_point now) noexcept {
    to_->on_arrival(j, user, now);
  }
  void on_submit(const job& j, const segment& s, duration expected, time_point now) noexcept {
    to_->on_submit(j, s, expected, now);
  }
  void on_segment_end(const job& j, segment_id id, time_point now) noexcept {
    to_->on_segment_end(j, id, now);
  }
  void on_almost_finished(const job& j, void* user, duration expected, time_point now) noexcept {
    to_->on_almost_finished(j, user, expected, now);
  }
  void on_failure(const job& j, std::exception_ptr why, time_point now) noexcept {
    to_->on_failure(j, std::move(why), now);
  }
  void on_end(const job& j, void* user, time_point now) noexcept { to_->on_end(j, user, now); }
  // Without effect if the listener has no such member.
  void on_preempt(time_point now) noexcept { to_->on_preempt(now); }
  void on_restore(time_point now) noexcept { to_->on_restore(now); }
  void on_starvation(duration waited, time_point now) noexcept { to_->on_starvation(waited, now); }

private:
  struct calls {
    virtual ~calls() = default;
    virtual void on_arrival(const job&, void*, time_point) noexcept = 0;
    virtual void on_submit(const job&, const segment&, duration, time_point) noexcept = 0;
    virtual void on_segment_end(const job&, segment_id, time_point) noexcept = 0;
    virtual void on_almost_finished(const job&, void*, duration, time_point) noexcept = 0;
    virtual void on_failure(const job&, std::exception_ptr, time_point) noexcept = 0;
    virtual void on_end(const job&, void*, time_point) noexcept = 0;
    virtual void on_preempt(time_point) noexcept = 0;
    virtual void on_restore(time_point) noexcept = 0;
    virtual void on_starvation(duration, time_point) noexcept = 0;
  };
  template <class L>
  struct calls_to final : calls {
    explicit calls_to(L& l) : to(l) {}
    void on_arrival(const job& j, void* user, time_point now) noexcept override {
      to.on_arrival(j, user, now);
    }
    void on_submit(const job& j, const segment& s, duration expected,
                   time_point now) noexcept override {
      to.on_submit(j, s, expected, now);
    }
    void on_segment_end(const job& j, segment_id id, time_point now) noexcept override {
      to.on_segment_end(j, id, now);
    }
    void on_almost_finished(const job& j, void* user, duration expected,
                            time_point now) noexcept override {
      to.on_almost_finished(j, user, expected, now);
    }
    void on_failure(const job& j, std::exception_ptr why, time_point now) noexcept override {
      to.on_failure(j, std::move(why), now);
    }
    void on_end(const job& j, void* user, time_point now) noexcept override {
      to.on_end(j, user, now);
    }
    void on_preempt(time_point now) noexcept override {
      if constexpr (requires { to.on_preempt(now); }) to.on_preempt(now);
    }
    void on_restore(time_point now) noexcept override {
      if constexpr (requires { to.on_restore(now); }) to.on_restore(now);
    }
    void on_starvation(duration waited, time_point now) noexcept override {
      if constexpr (requires { to.on_starvation(waited, now); }) to.on_starvation(waited, now);
    }
    L& to;
  };

  std::unique_ptr<calls> to_;
};

static_assert(listener<any_listener>);

} // namespace gsched::test

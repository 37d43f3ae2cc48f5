// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/id.hpp>
#include <gsched/core/time.hpp>
#include <gsched/device/device.hpp>
#include <gsched/device/preemptive_device.hpp>
#include <gsched/job/program.hpp>

#include <concepts>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <type_traits>

namespace gsched::test {

/// Any device, or any preemptive device, behind virtual functions: a dispatcher is compiled once
/// for all of them. A device without unload keeps its programs; one without failure() gives no
/// reason.
template <bool Preemptive>
class any_device {
public:
  /// The device outlives it.
  template <class D>
    requires(!std::same_as<std::remove_const_t<D>, any_device>) && device<D> &&
            (preemptive_device<D> == Preemptive)
  explicit any_device(D& to) : to_(std::make_unique<calls_to<D>>(to)) {}

  lane_id open_lane(const lane_options& how) { return to_->open_lane(how); }
  void load(program& p) { to_->load(p); }
  void unload(program& p) { to_->unload(p); }
  [[nodiscard]] std::error_code submit(const segment& s) noexcept { return to_->submit(s); }
  [[nodiscard]] std::size_t poll(std::span<device_event> out) noexcept { return to_->poll(out); }
  [[nodiscard]] std::size_t evict(lane_id lane) noexcept { return to_->evict(lane); }
  void wait(time_point until) noexcept { to_->wait(until); }
  [[nodiscard]] time_point now() const noexcept { return to_->now(); }
  [[nodiscard]] const device_limits& limits() const noexcept { return to_->limits(); }
  [[nodiscard]] const std::optional<std::string>& failure() const noexcept {
    return to_->failure();
  }
  void yield(lane_id lane) noexcept
    requires Preemptive
  {
    to_->yield(lane);
  }
  void resume(lane_id lane) noexcept
    requires Preemptive
  {
    to_->resume(lane);
  }

private:
  struct calls {
    virtual ~calls() = default;
    virtual lane_id open_lane(const lane_options&) = 0;
    virtual void load(program&) = 0;
    virtual void unload(program&) = 0;
    virtual std::error_code submit(const segment&) noexcept = 0;
    virtual std::size_t poll(std::span<device_event>) noexcept = 0;
    virtual std::size_t evict(lane_id) noexcept = 0;
    virtual void wait(time_point) noexcept = 0;
    virtual time_point now() const noexcept = 0;
    virtual const device_limits& limits() const noexcept = 0;
    virtual const std::optional<std::string>& failure() const noexcept = 0;
    virtual void yield(lane_id) noexcept = 0;
    virtual void resume(lane_id) noexcept = 0;
  };
  template <class D>
  struct calls_to final : calls {
    explicit calls_to(D& d) : to(d) {}
    lane_id open_lane(const lane_options& how) override { return to.open_lane(how); }
    void load(program& p) override { to.load(p); }
    void unload(program& p) override {
      if constexpr (requires { to.unload(p); }) to.unload(p);
    }
    std::error_code submit(const segment& s) noexcept override { return to.submit(s); }
    std::size_t poll(std::span<device_event> out) noexcept override { return to.poll(out); }
    std::size_t evict(lane_id lane) noexcept override { return to.evict(lane); }
    void wait(time_point until) noexcept override { to.wait(until); }
    time_point now() const noexcept override { return to.now(); }
    const device_limits& limits() const noexcept override { return to.limits(); }
    const std::optional<std::string>& failure() const noexcept override {
      if constexpr (requires { to.failure(); }) return to.failure();
      return no_words;
    }
    void yield(lane_id lane) noexcept override {
      if constexpr (Preemptive) to.yield(lane);
    }
    void resume(lane_id lane) noexcept override {
      if constexpr (Preemptive) to.resume(lane);
    }
    D& to;
    std::optional<std::string> no_words{};
  };

  std::unique_ptr<calls> to_;
};

static_assert(device<any_device<false>> && !preemptive_device<any_device<false>>);
static_assert(preemptive_device<any_device<true>>);

} // namespace gsched::test

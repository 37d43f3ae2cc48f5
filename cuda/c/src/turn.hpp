// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/sync.hpp>
#include <gsched/device/preemptive_device.hpp>

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>

namespace gsched::abi {

/// Who may touch the requests of a server: its thread, unless it is away in a driver that may not
/// come back. Then another thread can take over, for good: the server's thread, should it ever come
/// back, sleeps on and touches nothing.
///
/// Cost     away and a return: two uncontended atomic operations.
class turn {
public:
  /// Calls f, during which others may take over.
  template <class F>
  decltype(auto) away(F f) noexcept {
    state_.store(gone, sync::release); // [W1] release -> [W1] acquire in try_take_over
    struct back {
      turn& of;
      ~back() { of.come_back(); }
    } const on_return{*this};
    return f();
  }

  /// By who has waited long enough. False while the server's thread is at work.
  [[nodiscard]] bool try_take_over() noexcept {
    std::uint32_t seen = gone;
    // [W1] acquire <- [W1] release in away: all that the server's thread did. A second time it is
    // the same thread, or another that synchronised with it.
    return state_.compare_exchange_strong(seen, taken, sync::acquire, sync::relaxed);
  }
  [[nodiscard]] bool was_taken() const noexcept { return state_.load(sync::acquire) == taken; }

private:
  enum : std::uint32_t { here, gone, taken };

  void come_back() noexcept {
    std::uint32_t seen = gone;
    // unordered: nobody else has written anything unless it was taken
    if (state_.compare_exchange_strong(seen, here, sync::relaxed, sync::relaxed)) return;
    for (;;) ::pause();
  }

  sync::atomic<std::uint32_t> state_{here};
};

/// A device whose driver may hang: its calls are made away from the requests.
template <device Device>
class interruptible {
public:
  interruptible(Device& on, turn& whose) noexcept : on_(on), turn_(whose) {}

  lane_id open_lane(const lane_options& how) { return on_.open_lane(how); }
  template <class... Built>
  void load(program& p, Built... built) {
    guarded([&] { on_.load(p, std::move(built)...); });
  }
  auto unload(program& p) requires requires(Device& d) { d.unload(p); }
  {
    using graphs = decltype(on_.unload(p));
    if constexpr (std::is_void_v<graphs>) {
      guarded([&] { on_.unload(p); });
    } else {
      std::optional<graphs> out;
      guarded([&] { out.emplace(on_.unload(p)); });
      return std::move(*out);
    }
  }
  [[nodiscard]] const std::string& why_failed() const noexcept requires requires(const Device& d) {
    d.why_failed();
  }
  { return on_.why_failed(); }
  [[nodiscard]] std::error_code submit(const segment& s) noexcept {
    return turn_.away([&]() noexcept { return on_.submit(s); });
  }
  [[nodiscard]] std::size_t poll(std::span<device_event> out) noexcept {
    return turn_.away([&]() noexcept { return on_.poll(out); });
  }
  [[nodiscard]] std::size_t evict(lane_id lane) noexcept {
    return turn_.away([&]() noexcept { return on_.evict(lane); });
  }
  void yield(lane_id lane) noexcept requires preemptive_device<Device> {
    turn_.away([&]() noexcept { on_.yield(lane); });
  }
  void resume(lane_id lane) noexcept requires preemptive_device<Device> {
    turn_.away([&]() noexcept { on_.resume(lane); });
  }
  void wait(time_point t) noexcept {
    turn_.away([&]() noexcept { on_.wait(t); });
  }
  [[nodiscard]] time_point now() const noexcept { return on_.now(); }
  [[nodiscard]] const device_limits& limits() const noexcept { return on_.limits(); }

private:
  /// What the call throws is passed on once the thread is back.
  template <class F>
  void guarded(F call) {
    std::exception_ptr thrown;
    turn_.away([&]() noexcept {
      try {
        call();
      } catch (...) {
        thrown = std::current_exception();
      }
    });
    if (thrown) std::rethrow_exception(thrown);
  }

  Device& on_;
  turn& turn_;
};

} // namespace gsched::abi

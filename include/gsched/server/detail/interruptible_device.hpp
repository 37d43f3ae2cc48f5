// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/device/device.hpp>
#include <gsched/device/preemptive_device.hpp>
#include <gsched/server/detail/ownership.hpp>

#include <cstddef>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>

namespace gsched::detail {

/// A device whose driver may hang: each of its calls lends the ownership of the requests.
///
/// Its time stands still between two calls of the device, as that of a simulated one does: of the
/// several times that the dispatcher asks for it in the life of a request, one or two are read. A
/// reading costs 20 to 30 ns, a quarter of the dispatcher's work on a request in all.
template <device Device>
class interruptible_device {
public:
  interruptible_device(Device& on, ownership& whose) noexcept
      : on_(on), whose_(whose), now_(on.now()) {}

  /// Time goes on: after work of the caller's own, or a wait.
  void read_clock() noexcept { now_ = on_.now(); }

  lane_id open_lane(const lane_options& how) { return on_.open_lane(how); }
  template <class... Built>
  void load(program& p, Built... built) {
    guarded([&] { on_.load(p, std::move(built)...); });
  }
  auto unload(program& p)
    requires requires(Device& d) { d.unload(p); }
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
  [[nodiscard]] const std::string& why_failed() const noexcept
    requires requires(const Device& d) { d.why_failed(); }
  {
    return on_.why_failed();
  }
  [[nodiscard]] std::error_code submit(const segment& s) noexcept {
    const std::error_code e = whose_.lend([&]() noexcept { return on_.submit(s); });
    read_clock();
    return e;
  }
  [[nodiscard]] std::size_t poll(std::span<device_event> out) noexcept {
    const std::size_t n = whose_.lend([&]() noexcept { return on_.poll(out); });
    if (n > 0) read_clock();
    return n;
  }
  [[nodiscard]] std::size_t evict(lane_id lane) noexcept {
    const std::size_t n = whose_.lend([&]() noexcept { return on_.evict(lane); });
    read_clock();
    return n;
  }
  void yield(lane_id lane) noexcept
    requires preemptive_device<Device>
  {
    whose_.lend([&]() noexcept { on_.yield(lane); });
    read_clock();
  }
  void resume(lane_id lane) noexcept
    requires preemptive_device<Device>
  {
    whose_.lend([&]() noexcept { on_.resume(lane); });
    read_clock();
  }
  void wait(time_point t) noexcept {
    whose_.lend([&]() noexcept { on_.wait(t); });
    read_clock();
  }
  [[nodiscard]] time_point now() const noexcept { return now_; }
  [[nodiscard]] const device_limits& limits() const noexcept { return on_.limits(); }

private:
  /// Rethrows what the call throws, once the ownership is back.
  template <class F>
  void guarded(F call) {
    std::exception_ptr thrown;
    whose_.lend([&]() noexcept {
      try {
        call();
      } catch (...) {
        thrown = std::current_exception();
      }
    });
    read_clock();
    if (thrown) std::rethrow_exception(thrown);
  }

  Device& on_;
  ownership& whose_;
  time_point now_;
};

} // namespace gsched::detail

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/id.hpp>
#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/device/device.hpp>
#include <gsched/device/preemptive_device.hpp>
#include <gsched/job/program.hpp>
#include <gsched/sim/device.hpp>
#include <gsched/sim/preset.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <span>
#include <system_error>
#include <thread>
#include <utility>

namespace gsched::sim {

/// A simulated GPU whose virtual time follows the real clock: a server with its own thread, and
/// clients that really wait, run on it without a GPU. Unlike sim::device it is not deterministic.
///
/// Differs  where the host falls behind, as a loaded machine does, events are reported late, at the
///          time at which they are polled. A call does not take the time that the simulated host
///          needs for it: until that has passed, no event is reported.
/// Errors   as sim::device.
/// Cost     as sim::device, and a reading of the clock for each call.
/// Threads  one owner; no locking.
class paced_device {
public:
  using clock = std::chrono::steady_clock;

  explicit paced_device(preset p, const device_options& o = {}) : gpu_(std::move(p), o) {}

  lane_id open_lane(const lane_options& how) { return gpu_.open_lane(how); }
  void load(program& p) { gpu_.load(p); }
  [[nodiscard]] std::error_code submit(const segment& s) noexcept {
    catch_up();
    return gpu_.submit(s);
  }
  [[nodiscard]] std::size_t poll(std::span<device_event> out) noexcept {
    catch_up();
    return has_event() ? gpu_.poll(out) : 0;
  }
  [[nodiscard]] std::size_t evict(lane_id lane) noexcept {
    catch_up();
    return gpu_.evict(lane);
  }
  void yield(lane_id lane) noexcept {
    catch_up();
    gpu_.yield(lane);
  }
  void resume(lane_id lane) noexcept {
    catch_up();
    gpu_.resume(lane);
  }

  /// Sleeps, or spins for the last microseconds.
  void wait(time_point t) noexcept {
    for (;;) {
      catch_up();
      if (has_event() || now() >= t) return;
      const time_point until = std::min(t, is_ahead() ? gpu_.now() : gpu_.next_change());
      if (until == time_point::max()) return; // nothing could end it
      if (until - now() > shortest_sleep) std::this_thread::sleep_until(real(until - wake_up));
    }
  }

  [[nodiscard]] duration busy_time() noexcept {
    catch_up();
    return gpu_.busy_time();
  }
  [[nodiscard]] double sm_time() noexcept {
    catch_up();
    return gpu_.sm_time();
  }

  /// The real time since it was made.
  [[nodiscard]] time_point now() const noexcept { return time_point{clock::now() - start_}; }
  [[nodiscard]] const device_limits& limits() const noexcept { return gpu_.limits(); }

private:
  static constexpr duration shortest_sleep = std::chrono::microseconds{200};
  static constexpr duration wake_up = std::chrono::microseconds{100}; ///< of a sleeping thread

  void catch_up() noexcept { gpu_.spend(now() - gpu_.now()); }
  /// Whether the simulated host is busy with earlier calls.
  [[nodiscard]] bool is_ahead() const noexcept { return gpu_.now() > now(); }
  [[nodiscard]] bool has_event() noexcept { return !is_ahead() && gpu_.has_event(); }
  [[nodiscard]] clock::time_point real(time_point t) const noexcept {
    return start_ + t.time_since_epoch();
  }

  device gpu_;
  clock::time_point start_ = clock::now();
};

static_assert(preemptive_device<paced_device>);

} // namespace gsched::sim

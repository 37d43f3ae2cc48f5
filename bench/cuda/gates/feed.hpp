// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/cuda/device.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <system_error>

namespace gates {

/// A device with a lane that yields and one of higher priority, and its events.
class stage {
public:
  static constexpr std::size_t ahead = 2; ///< segments of the best-effort program

  stage(int gpu, unsigned every, gsched::cuda::program& work)
      : device_(options(gpu, every)), work_(work.host()) {
    low_ = device_.open_lane({0, {}, true});
    high_ = device_.open_lane({1, {}, false});
    device_.load(work_);
  }
  void load(gsched::cuda::program& p) { device_.load(p); }

  [[nodiscard]] double us() const { return gsched::to_us(device_.now().time_since_epoch()); }
  void yield() { device_.yield(low_); }
  void resume() { device_.resume(low_); }
  /// Keeps the lane busy, except while it yields.
  void feed() {
    for (; in_flight_ < ahead; ++in_flight_) {
      const std::size_t last = work_.cut(next_, gsched::from_us(100));
      submit(low_, work_, next_, last, 0);
      next_ = last == work_.size() ? 0 : last;
    }
  }
  /// The whole program, on the urgent lane.
  void request(gsched::program& p) {
    submit(high_, p, 0, p.size(), 1);
    answered = false;
  }
  void poll() {
    using kind = gsched::device_event::kind;
    std::array<gsched::device_event, 16> out;
    const std::size_t n = device_.poll(out);
    for (std::size_t i = 0; i < n; ++i) switch (out[i].what) {
      case kind::lane_yielded: yielded = true; break;
      case kind::lane_resumed: resumed = true; break;
      case kind::segment_done:
        if (gsched::index(out[i].segment) == 1) {
          answered = true;
        } else {
          --in_flight_;
          ++segments;
        }
        break;
      default:
        throw gsched::error(gsched::errc::device_failed,
                            device_.failure().value_or("a segment failed"));
      }
  }
  [[nodiscard]] bool idle() const noexcept { return in_flight_ == 0; }

  bool yielded = false;
  bool resumed = false;
  bool answered = true;
  std::uint64_t segments = 0; ///< of the best-effort program, ended

private:
  static gsched::cuda::device_options options(int gpu, unsigned every) {
    gsched::cuda::device_options o;
    o.gpu = gpu;
    o.levels = 1;
    o.whole = true;
    o.gate_every = every;
    return o;
  }
  void submit(gsched::lane_id lane, gsched::program& p, std::size_t first, std::size_t last,
              std::uint64_t id) {
    gsched::segment s;
    s.id = gsched::segment_id{id};
    s.lane = lane;
    s.program = p.id();
    s.first = static_cast<std::uint32_t>(first);
    s.operations = p.range(first, last);
    if (const std::error_code e = device_.submit(s)) throw std::system_error(e, p.name());
  }

  gsched::cuda::device device_;
  gsched::program& work_;
  gsched::lane_id low_{};
  gsched::lane_id high_{};
  std::size_t next_ = 0;
  std::size_t in_flight_ = 0;
};

} // namespace gates

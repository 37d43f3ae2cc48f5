// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/timeline.hpp"

#include <gsched/core/id.hpp>
#include <gsched/core/time.hpp>
#include <gsched/device/device.hpp>
#include <gsched/device/preemptive_device.hpp>
#include <gsched/job/program.hpp>

#include <cstddef>
#include <span>
#include <system_error>
#include <utility>

namespace common {

/// Forwards to a device, and records in a timeline when lanes yield and resume.
template <gsched::device D>
class traced_device {
public:
  /// `record` may be null.
  traced_device(D on, timeline* record) : on_(std::move(on)), record_(record) {}

  [[nodiscard]] D& inner() noexcept { return on_; }

  gsched::lane_id open_lane(const gsched::lane_options& how) {
    const gsched::lane_id lane = on_.open_lane(how);
    if (record_ != nullptr && how.yields) record_->watch(lane);
    return lane;
  }
  void load(gsched::program& p) { on_.load(p); }
  [[nodiscard]] std::error_code submit(const gsched::segment& s) noexcept { return on_.submit(s); }
  [[nodiscard]] std::size_t poll(std::span<gsched::device_event> out) noexcept {
    const std::size_t n = on_.poll(out);
    if (record_ == nullptr) return n;
    for (const gsched::device_event& e : out.first(n)) {
      if (e.what == gsched::device_event::kind::lane_yielded) record_->yielded(e.lane, on_.now());
      if (e.what == gsched::device_event::kind::lane_resumed) record_->resumed(e.lane, on_.now());
    }
    return n;
  }
  [[nodiscard]] std::size_t evict(gsched::lane_id lane) noexcept { return on_.evict(lane); }
  void wait(gsched::time_point t) noexcept { on_.wait(t); }
  [[nodiscard]] gsched::time_point now() const noexcept { return on_.now(); }
  [[nodiscard]] const gsched::device_limits& limits() const noexcept { return on_.limits(); }

  void yield(gsched::lane_id lane) noexcept
    requires gsched::preemptive_device<D>
  {
    if (record_ != nullptr) record_->yielding(lane, on_.now());
    on_.yield(lane);
  }
  void resume(gsched::lane_id lane) noexcept
    requires gsched::preemptive_device<D>
  {
    if (record_ != nullptr) record_->resuming(lane, on_.now());
    on_.resume(lane);
  }

  /// Why the device failed, for a device that reports it.
  [[nodiscard]] decltype(auto) failure() const noexcept
    requires requires(const D d) { d.failure(); }
  {
    return on_.failure();
  }

private:
  D on_;
  timeline* record_;
};

} // namespace common

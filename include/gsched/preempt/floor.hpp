// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>

#include <algorithm>
#include <cstdint>

namespace gsched {

/// Says when best-effort jobs, which are otherwise kept waiting, are to be let on so that they get
/// their part of the time. While both classes want the device, what they are owed rises by `floor`
/// of the time that they wait and falls by the rest of the time that they are let on: so they are
/// let on for floor * window in each window, and a turn that came late is made good by the next.
///
/// Units    windows beyond a minute count as that; what is owed is kept in nanoseconds times 2^20.
/// Cost     O(1) each.
/// Threads  one owner; no locking.
class floor_clock {
public:
  /// floor: 0 to below 1; 0 never lets them on.
  floor_clock(double floor, duration window) noexcept
      : floor_(static_cast<std::int64_t>(floor * unit + 0.5)),
        turn_(floor_ *
              (1 + static_cast<std::int64_t>((1 - floor) * std::min(to_s(window), 60.0) * 1e9))),
        most_(8 * turn_) {}

  /// Time has passed until now. `contended`: since the last call real-time jobs were active, and
  /// best-effort ones too; `on`: these were let on.
  void pass(time_point now, bool contended, bool on) noexcept {
    const std::int64_t passed = std::min<std::int64_t>((now - last_).count(), longest);
    last_ = now;
    if (floor_ == 0) return;
    if (!contended)
      owed_ = on ? std::max<std::int64_t>(0, owed_ - passed * (unit - floor_)) : owed_;
    else
      owed_ += passed * (on ? floor_ - unit : floor_);
    owed_ = std::clamp(owed_, -most_, most_);
    on_ = on_ ? owed_ > 0 : owed_ >= turn_;
  }

  /// They are to be let on although real-time jobs are active.
  [[nodiscard]] bool lets_on() const noexcept { return floor_ > 0 && on_; }

private:
  static constexpr std::int64_t unit = std::int64_t{1} << 20;
  static constexpr std::int64_t longest = std::int64_t{1} << 40; ///< 18 minutes

  std::int64_t floor_;
  std::int64_t turn_; ///< what is owed after the wait of one window
  std::int64_t most_;
  std::int64_t owed_ = 0;
  bool on_ = false;
  time_point last_{};
};

} // namespace gsched

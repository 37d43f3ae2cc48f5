// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>

#include <algorithm>
#include <cstdint>

namespace gsched {

/// Gives best-effort jobs a minimum share of the time while real-time jobs are active. While both
/// classes want the device, the time owed to best-effort jobs grows by `floor` of the time in which
/// they are held and shrinks by the rest of the time in which they are released. So they are
/// released for floor * window in each window, and the next release compensates a late one.
///
/// Units    windows above a minute count as one minute; the owed time is kept in nanoseconds times
///          2^20.
/// Cost     O(1) each.
/// Threads  one owner; no locking.
class floor_clock {
public:
  /// floor: 0 to below 1; 0 never releases them.
  floor_clock(double floor, duration window) noexcept
      : floor_(static_cast<std::int64_t>(floor * unit + 0.5)),
        turn_(floor_ *
              (1 + static_cast<std::int64_t>((1 - floor) * std::min(to_s(window), 60.0) * 1e9))),
        most_(8 * turn_) {}

  /// Time has passed until `now`. `contended`: since the last call both classes had active jobs;
  /// `on`: best-effort jobs were released.
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

  /// Whether best-effort jobs are to be released although real-time jobs are active.
  [[nodiscard]] bool lets_on() const noexcept { return floor_ > 0 && on_; }

private:
  static constexpr std::int64_t unit = std::int64_t{1} << 20;
  static constexpr std::int64_t longest = std::int64_t{1} << 40; ///< 18 minutes

  std::int64_t floor_;
  std::int64_t turn_; ///< the time owed after the hold of one window
  std::int64_t most_;
  std::int64_t owed_ = 0;
  bool on_ = false;
  time_point last_{};
};

} // namespace gsched

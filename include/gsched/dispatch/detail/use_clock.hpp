// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/dispatch/statistics.hpp>

namespace gsched {

/// Adds up how long lanes have work.
///
/// Cost     O(1) each.
/// Threads  one owner; no locking.
class use_clock {
public:
  /// A lane that was empty has work.
  void began(time_point now) noexcept {
    pass(now);
    ++use_.lanes_in_use;
  }
  /// A lane has become empty.
  void ended(time_point now) noexcept {
    pass(now);
    --use_.lanes_in_use;
  }
  /// Until now, without the number of lanes.
  [[nodiscard]] lane_statistics until(time_point now) noexcept {
    pass(now);
    return use_;
  }

private:
  void pass(time_point now) noexcept {
    if (now <= last_) return; // a segment may be submitted with the time of its decision
    if (use_.lanes_in_use > 0) {
      use_.busy += now - last_;
      use_.lane_time += (now - last_) * static_cast<duration::rep>(use_.lanes_in_use);
    }
    last_ = now;
  }

  lane_statistics use_{};
  time_point last_{};
};

} // namespace gsched

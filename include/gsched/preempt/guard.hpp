// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/preempt/statistics.hpp>

#include <cstdint>
#include <utility>
#include <vector>

namespace gsched {

/// Makes best-effort lanes yield to real-time work and resume: tracks which lanes were asked to
/// yield, which have yielded, and which may continue. It knows lanes by number, and reaches the
/// device through the callbacks that it receives. So this class alone keeps the caller's part of
/// the contract of preemptive_device.
///
/// Source   Han et al., ACM TOCS 44(1), 2025, sections 3 and 4 (its two modes),
///          doi:10.1145/3768622.
/// Differs  only lanes with work in flight are asked to yield. A lane resumes only after it has
///          yielded, even if it was released before.
/// Cost     hold and release O(lanes), the rest O(1); no allocation after construction.
/// Threads  one owner; no locking.
class guard {
public:
  /// `yields`: the lanes can yield. If not, a lane has yielded once its in-flight work has ended.
  guard(std::uint32_t lanes, bool yields) : lanes_(lanes), yields_(yields) {}

  /// Whether best-effort work may not be submitted, because real-time work wants the device.
  [[nodiscard]] bool holds() const noexcept { return holds_; }
  /// Whether work may be submitted to every lane.
  [[nodiscard]] bool open() const noexcept { return !holds_ && away_ == 0; }

  /// Real-time work has arrived: calls yield(lane) for each lane with busy(lane), that is, with
  /// work in flight. If lanes cannot yield, the caller calls yielded() when that work has ended.
  template <class Busy, class Yield>
  void hold(time_point now, Busy busy, Yield yield, preemption_statistics& to) noexcept {
    holds_ = true;
    since_ = now;
    restoring_ = false;
    const std::uint32_t yielding = yielding_;
    for (std::uint32_t i = 0; i < lanes_.size(); ++i) {
      if (lanes_[i].is != standing::on || !busy(i)) continue;
      if (yields_) yield(i);
      lanes_[i].is = standing::yielding;
      ++yielding_;
      ++away_;
    }
    // an earlier decision covers it, or no lane had to yield
    if (yielding > 0 || yielding_ == 0) return;
    decided_ = now;
    ++to.preemptions.count;
  }

  /// No real-time work is left, or best-effort work is to receive its share: calls resume(lane) for
  /// each lane that has yielded; stays(lane) returns whether work is still on it.
  template <class Stays, class Resume>
  void release(time_point now, Stays stays, Resume resume, preemption_statistics& to) noexcept {
    holds_ = false;
    to.time_withheld += now - since_;
    if (away_ > 0) ++to.restores.count;
    for (std::uint32_t i = 0; i < lanes_.size(); ++i) {
      if (lanes_[i].is == standing::yielding && !yields_) {
        lanes_[i].is = standing::on; // it never stopped
        --yielding_;
        --away_;
      } else if (lanes_[i].is == standing::yielded) {
        back(i, now, stays, resume);
      }
    }
  }

  /// The lane has reported that it has yielded, or has drained. Returns false if it was not asked
  /// to yield.
  template <class Stays, class Resume>
  [[nodiscard]] bool yielded(std::uint32_t lane, time_point now, Stays stays, Resume resume,
                             preemption_statistics& to) noexcept {
    if (lane >= lanes_.size() || lanes_[lane].is != standing::yielding) return false;
    lanes_[lane].is = standing::yielded;
    if (--yielding_ == 0) to.preemptions.latency.record(now - decided_);
    if (!holds_) back(lane, now, stays, resume);
    return true;
  }

  /// Work of a released lane runs again.
  void resumed(std::uint32_t lane, time_point now, preemption_statistics& to) noexcept {
    if (!restoring_ || lane >= lanes_.size() || !lanes_[lane].stays) return;
    to.restores.latency.record(now - released_);
    restoring_ = false;
  }

  /// Whether work on the lane may run.
  [[nodiscard]] bool may_run(std::uint32_t lane) const noexcept {
    return lane >= lanes_.size() || lanes_[lane].is != standing::yielded;
  }
  [[nodiscard]] bool is_yielding(std::uint32_t lane) const noexcept {
    return lane < lanes_.size() && lanes_[lane].is == standing::yielding;
  }

private:
  enum class standing : std::uint8_t { on, yielding, yielded };
  struct lane_state {
    standing is = standing::on;
    bool stays = false; ///< work was on it at its last release
  };

  template <class Stays, class Resume>
  void back(std::uint32_t lane, time_point now, Stays stays, Resume resume) noexcept {
    lanes_[lane] = {standing::on, yields_ && stays(lane)};
    --away_;
    if (!yields_) return;
    if (lanes_[lane].stays && !std::exchange(restoring_, true)) released_ = now;
    resume(lane);
  }

  std::vector<lane_state> lanes_;
  bool yields_;
  bool holds_ = false;
  /// work that stayed was released at released_ and has not been seen to run
  bool restoring_ = false;
  std::uint32_t yielding_ = 0; ///< lanes that were asked to yield and have not yet
  std::uint32_t away_ = 0;     ///< these, and the lanes that have yielded
  time_point since_{};
  time_point decided_{};
  time_point released_{};
};

} // namespace gsched

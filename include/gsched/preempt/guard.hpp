// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/preempt/statistics.hpp>

#include <cstdint>
#include <utility>
#include <vector>

namespace gsched {

/// Keeps best-effort lanes out of the way of real-time work: which of them were told to make way,
/// which have, and which may go on. It knows lanes by number, and the device by what it is given to
/// call, so that the contract of preemptive_device is kept here and nowhere else.
///
/// Source   Han et al., ACM TOCS 44(1), 2025, sections 3 and 4 (its two modes),
///          doi:10.1145/3768622.
/// Differs  only lanes with work in flight are told. A lane is let on once it has said that it has
///          yielded, though nobody may want it to by then.
/// Cost     hold and let_on O(lanes), the rest O(1); no allocation after construction.
/// Threads  one owner; no locking.
class guard {
public:
  /// `yields`: lanes answer. Where they do not, work in flight makes way by ending.
  guard(std::uint32_t lanes, bool yields) : lanes_(lanes), yields_(yields) {}

  /// Nothing may be submitted: real-time work wants the device.
  [[nodiscard]] bool holds() const noexcept { return holds_; }
  /// Something may be submitted to every lane.
  [[nodiscard]] bool open() const noexcept { return !holds_ && away_ == 0; }

  /// Real-time work has come: yield(lane) is called for each lane where busy(lane) says that it has
  /// work in flight; where lanes do not answer, `yielded` is to say when that has ended.
  template <class Busy, class Yield>
  void hold(time_point now, Busy busy, Yield yield, preemption_statistics& to) noexcept {
    holds_ = true;
    since_ = now;
    restoring_ = false;
    const std::uint32_t leaving = leaving_;
    for (std::uint32_t i = 0; i < lanes_.size(); ++i) {
      if (lanes_[i].is != standing::on || !busy(i)) continue;
      if (yields_) yield(i);
      lanes_[i].is = standing::leaving;
      ++leaving_;
      ++away_;
    }
    if (leaving > 0 || leaving_ == 0) return; // an earlier decision covers it, or none was needed
    decided_ = now;
    ++to.preemptions.count;
  }

  /// No real-time work is left, or best-effort work is to have its share: resume(lane) is called
  /// for those that have yielded; stays(lane) says whether work is still on it.
  template <class Stays, class Resume>
  void let_on(time_point now, Stays stays, Resume resume, preemption_statistics& to) noexcept {
    holds_ = false;
    to.time_withheld += now - since_;
    if (away_ > 0) ++to.restores.count;
    for (std::uint32_t i = 0; i < lanes_.size(); ++i) {
      if (lanes_[i].is == standing::leaving && !yields_) {
        lanes_[i].is = standing::on; // it never stopped
        --leaving_;
        --away_;
      } else if (lanes_[i].is == standing::yielded) {
        back(i, now, stays, resume);
      }
    }
  }

  /// The lane has said so, or has drained. False if it was not asked to.
  template <class Stays, class Resume>
  [[nodiscard]] bool yielded(std::uint32_t lane, time_point now, Stays stays, Resume resume,
                             preemption_statistics& to) noexcept {
    if (lane >= lanes_.size() || lanes_[lane].is != standing::leaving) return false;
    lanes_[lane].is = standing::yielded;
    if (--leaving_ == 0) to.preemptions.latency.record(now - decided_);
    if (!holds_) back(lane, now, stays, resume);
    return true;
  }

  /// Work of a lane that was let on runs again.
  void resumed(std::uint32_t lane, time_point now, preemption_statistics& to) noexcept {
    if (!restoring_ || lane >= lanes_.size() || !lanes_[lane].stays) return;
    to.restores.latency.record(now - let_on_);
    restoring_ = false;
  }

  /// What is on the lane may run.
  [[nodiscard]] bool may_run(std::uint32_t lane) const noexcept {
    return lane >= lanes_.size() || lanes_[lane].is != standing::yielded;
  }
  [[nodiscard]] bool is_leaving(std::uint32_t lane) const noexcept {
    return lane < lanes_.size() && lanes_[lane].is == standing::leaving;
  }

private:
  enum class standing : std::uint8_t { on, leaving, yielded };
  struct lane_state {
    standing is = standing::on;
    bool stays = false; ///< when it was let on last, work was on it
  };

  template <class Stays, class Resume>
  void back(std::uint32_t lane, time_point now, Stays stays, Resume resume) noexcept {
    lanes_[lane] = {standing::on, yields_ && stays(lane)};
    --away_;
    if (!yields_) return;
    if (lanes_[lane].stays && !std::exchange(restoring_, true)) let_on_ = now;
    resume(lane);
  }

  std::vector<lane_state> lanes_;
  bool yields_;
  bool holds_ = false;
  bool restoring_ = false;    ///< since let_on_, nothing of what stayed was seen to run
  std::uint32_t leaving_ = 0; ///< told, and not yet out of the way
  std::uint32_t away_ = 0;    ///< these, and those that have yielded
  time_point since_{};
  time_point decided_{};
  time_point let_on_{};
};

} // namespace gsched

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/sim/detail/queues/submissions.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gsched::sim {

/// The lanes, the segments that were submitted to them, and the hardware queues.
///
/// Cost     O(1) a call, or O(withdrawn segments); visit_due O(queues). Only opening a lane
///          allocates.
/// Threads  one owner; no locking.
class queues {
public:
  static constexpr std::uint32_t none = submissions::none;

  queues(std::size_t max_segments, std::size_t hardware_queues)
      : submissions_(max_segments, hardware_queues) {}

  [[nodiscard]] std::size_t lanes() const noexcept { return lanes_.size(); }
  [[nodiscard]] lane_state& lane(std::uint32_t id) noexcept { return lanes_[id]; }
  [[nodiscard]] const lane_state& lane(std::uint32_t id) const noexcept { return lanes_[id]; }
  [[nodiscard]] accepted& operator[](std::uint32_t slot) noexcept { return submissions_[slot]; }
  [[nodiscard]] hardware_queue& queue(std::uint32_t i) noexcept { return submissions_.queues()[i]; }
  [[nodiscard]] std::uint32_t used() const noexcept { return used_; } ///< number of queues
  [[nodiscard]] std::uint32_t active_lanes() const noexcept { return active_lanes_; }
  /// The number of segments that can still be accepted.
  [[nodiscard]] std::size_t free_slots() const noexcept { return submissions_.capacity() - live_; }
  /// The number of block events reserved for accepted segments.
  [[nodiscard]] std::size_t kept_reports() const noexcept { return kept_reports_; }

  std::uint32_t open_lane(lane_state how) {
    const auto id = static_cast<std::uint32_t>(lanes_.size());
    const auto n = static_cast<std::uint32_t>(submissions_.queues().size());
    how.queue = id % n;
    for (lane_state& other : lanes_) {
      if (!other.where.meets(how.where)) continue;
      other.shares = how.shares = true;
    }
    lanes_.push_back(how);
    used_ = std::min(id + 1, n);
    return id;
  }

  /// Requires free_slots().
  void enqueue(const accepted& a) noexcept {
    const std::uint32_t slot = submissions_.take();
    lane_state& l = lanes_[a.lane];
    submissions_[slot] = a;
    submissions_[slot].lane_previous = l.newest;
    l.newest = slot;
    if (l.outstanding++ == 0) ++active_lanes_;
    ++live_;
    kept_reports_ += a.reports;
    if (a.waits) {
      submissions_.append(l.waiting, slot);
      ++l.waiters;
      ++waiting_;
    } else {
      count(l, a);
      append(slot, a.arrival);
    }
  }

  /// Whether the host submits a segment to the hardware now. A segment behind a graph that can be
  /// held would block its hardware queue meanwhile, and behind preemptible kernels other segments
  /// would start too early. So a lane that yields has either one graph with gates in the hardware
  /// at a time, or preemptible segments.
  [[nodiscard]] static bool may_start(const accepted& a, const lane_state& l,
                                      time_point now) noexcept {
    return l.gated == 0 && now >= l.gated_seen &&
           (a.preemptible || (l.preemptible == 0 && now >= l.preemptible_seen));
  }
  /// Submits waiting segments that may start to the hardware, oldest first; `launch` sets the
  /// arrival of a segment.
  template <class Launch>
  void hand_over(time_point now, Launch&& launch) noexcept {
    if (waiting_ == 0) return;
    for (lane_state& l : lanes_)
      while (!l.yielding && !l.waiting.empty() && may_start(submissions_[l.waiting.head], l, now)) {
        const std::uint32_t slot = l.waiting.head;
        remove(slot);
        accepted& a = submissions_[slot];
        a.waits = false;
        launch(a);
        count(l, a);
        append(slot, a.arrival);
      }
  }

  /// Appends to the waiting segments of its lane's hardware queue.
  void append(std::uint32_t slot, time_point ready) noexcept {
    hardware_queue& q = queue(lanes_[submissions_[slot].lane].queue);
    const bool idle = q.head == none;
    submissions_.append(q, slot);
    if (idle) look(q, ready);
  }
  void remove(std::uint32_t slot) noexcept {
    lane_state& l = lanes_[submissions_[slot].lane];
    const bool waits = submissions_[slot].waits;
    segment_list& from = waits ? l.waiting : queue(l.queue);
    submissions_.remove(from, slot);
    l.waiters -= waits;
    waiting_ -= waits;
  }

  /// Waiting segments of the lane will not be submitted.
  void withdraw(const lane_state& l) noexcept {
    while (!l.waiting.empty()) remove(l.waiting.head);
  }

  /// Withdraws segments that have not started, newest first.
  [[nodiscard]] std::size_t evict(std::uint32_t id, time_point now) noexcept {
    lane_state& l = lanes_[id];
    std::size_t n = 0;
    while (l.outstanding > 0 && submissions_[l.newest].issued == 0) {
      const std::uint32_t slot = l.newest;
      const std::uint32_t previous = submissions_[slot].lane_previous;
      remove(slot);
      retire(slot);
      l.newest = previous;
      ++n;
    }
    hardware_queue& q = queue(l.queue);
    if (n > 0 && q.head != none) look(q, now);
    return n;
  }

  /// The segment has ended or was withdrawn: its slot is free.
  void retire(std::uint32_t slot) noexcept {
    const accepted& a = submissions_[slot];
    lane_state& l = lanes_[a.lane];
    if (l.newest == slot) l.newest = none;
    if (a.gated && !a.waits) {
      --l.gated;
      l.gated_seen = l.last_told;
    }
    if (a.preemptible && !a.waits) {
      --l.preemptible;
      l.preemptible_seen = l.last_told;
    }
    if (--l.outstanding == 0) --active_lanes_;
    --live_;
    kept_reports_ -= a.reports;
    submissions_.give(slot);
  }

  /// n block events of a segment were reported.
  void reported(accepted& a, std::size_t n) noexcept {
    a.reports -= n;
    kept_reports_ -= n;
  }

  /// A lane with segments comes to rest, or is active again.
  void rest() noexcept { --active_lanes_; }
  void wake() noexcept { ++active_lanes_; }

  void look(hardware_queue& q, time_point at) noexcept {
    q.look = std::min(q.look, at);
    next_ = std::min(next_, at);
  }
  /// When the head of some queue may be able to start.
  [[nodiscard]] time_point next() const noexcept { return next_; }
  /// Calls look_at(q) for each queue whose head may be able to start by `now`; the call sets q.look
  /// to the time of the next visit.
  template <class LookAt>
  void visit_due(time_point now, LookAt&& look_at) noexcept {
    if (next_ > now) return;
    next_ = time_point::max();
    time_point next = next_;
    hardware_queue* const all = submissions_.queues().data();
    for (std::uint32_t i = 0; i < used_; ++i) {
      if (all[i].look <= now) look_at(all[i]);
      next = all[i].look < next ? all[i].look : next; // by value: no branch
    }
    next_ = std::min(next_, next);
  }

private:
  static void count(lane_state& l, const accepted& a) noexcept {
    l.gated += a.gated;
    l.preemptible += a.preemptible;
  }

  submissions submissions_;
  std::vector<lane_state> lanes_;
  std::uint32_t used_ = 0;
  std::uint32_t active_lanes_ = 0; ///< lanes with segments that may run
  std::size_t live_ = 0;
  std::size_t waiting_ = 0; ///< of these, segments that are not submitted to the hardware
  std::size_t kept_reports_ = 0;
  time_point next_ = time_point::max();
};

} // namespace gsched::sim

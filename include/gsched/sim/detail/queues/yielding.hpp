// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/device/device.hpp>
#include <gsched/sim/detail/blocks/block_scheduler.hpp>
#include <gsched/sim/detail/queues/event_queue.hpp>
#include <gsched/sim/detail/queues/queues.hpp>
#include <gsched/sim/preset.hpp>

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace gsched::sim {

/// Lanes that yield and resume. A lane that was asked to yield passes through these states:
///  asked    its gates and blocks have not seen the request; everything continues.
///  stopped  its next gate holds it; or its running blocks exit, and blocks of the kernels behind
///           find the flag set as they start. These kernels run through, one after another, and are
///           placed like any.
///  at rest  the host was notified: the rest is held before one of its operations, out of its
///           hardware queue. The operation beside the gate has had the time that it takes alone;
///           slowed down by others, it may still run.
///
/// Cost     O(segments on the lane) a yield, plus that of block_scheduler::leave.
/// Threads  one owner; no locking.
class yielding {
public:
  static constexpr std::uint32_t none = queues::none;

  yielding(const yield_costs& costs, duration latency, queues& q, block_scheduler& s,
           event_queue& out)
      : costs_(costs), latency_(latency), queues_(q), scheduler_(s), events_(out) {}

  /// Adds a lane that yields. Set-up.
  void open_lane() {
    events_.open_lane();
    moving_.reserve(queues_.lanes());
  }

  /// Whether a gate precedes an operation of a graph with gates. The first gate is beside the
  /// second operation, so that a graph begins with one node.
  [[nodiscard]] bool gated(std::uint32_t operation) const noexcept {
    return operation >= first_gate && (operation - first_gate) % costs_.gate_every == 0;
  }
  static constexpr std::uint32_t first_gate = 2;

  /// Asks a lane to yield; returns the host time.
  duration yield(std::uint32_t id, time_point now) noexcept {
    lane_state& l = queues_.lane(id);
    assert(l.yields && !l.yielding && "yield: for a lane that yields, in turn with resume");
    if (!l.yields || l.yielding) return duration::zero();
    l.yielding = true;
    if (l.outstanding == l.waiters) {
      l.stopped = true;
      queues_.withdraw(l);
      come_to_rest(id, now, duration::zero());
      return costs_.hold;
    }
    l.flagged = l.preemptible > 0;
    l.stops = now + (l.flagged ? costs_.flagged : costs_.held);
    enlist(id, l.stops);
    return l.flagged ? costs_.flag : costs_.hold;
  }

  /// Resumes a lane; returns the host time.
  duration resume(std::uint32_t id, time_point now) noexcept {
    lane_state& l = queues_.lane(id);
    assert(l.rests && "resume: for a lane that has yielded");
    if (!l.rests) return duration::zero();
    l.yielding = l.stopped = l.rests = false;
    const bool flagged = std::exchange(l.flagged, false);
    l.goes_on = std::max(now, l.lowered);
    if (l.held == none) {
      tell(l, now, lane_event(device_event::kind::lane_resumed, id));
    } else {
      l.goes_on = std::max(l.goes_on, now + costs_.going_on);
      l.resuming = true;
      queues_.wake();
      queues_.append(std::exchange(l.held, none), l.goes_on);
    }
    return flagged ? costs_.flag : costs_.hold;
  }

  /// When a lane stops or comes to rest next.
  [[nodiscard]] time_point next() const noexcept { return next_; }

  /// Performs the transitions of all lanes that are due.
  [[gnu::cold]] void step(time_point now) noexcept {
    time_point next = time_point::max();
    std::size_t kept = 0;
    for (std::size_t i = 0; i < moving_.size(); ++i) { // no lane is added meanwhile
      const std::uint32_t id = moving_[i];
      lane_state& l = queues_.lane(id);
      if (l.stops <= now) {
        l.stops = time_point::max();
        stop(id, now);
      }
      if (l.quiet <= now) come_to_rest(id, now, latency_);
      if (l.rests) continue;
      moving_[kept++] = id;
      next = std::min(next, std::min(l.stops, l.quiet));
    }
    moving_.resize(kept);
    next_ = next;
  }

  /// An operation of a stopped lane has started. Returns whether the gate beside it, if there is
  /// one, holds the rest.
  [[nodiscard, gnu::cold]] bool stands(std::uint32_t slot) noexcept {
    const accepted& a = queues_[slot];
    if (!a.gated || a.issued == a.operations.size() || !gated(a.issued)) return false;
    lane_state& l = queues_.lane(a.lane);
    queues_.remove(slot);
    l.held = slot;
    return true;
  }

  /// An operation of a stopped lane has ended or was preempted. Returns whether nothing else of its
  /// segment is to be reported now.
  [[nodiscard, gnu::cold]] bool stays(std::uint32_t slot, time_point now) noexcept {
    const accepted& a = queues_[slot];
    lane_state& l = queues_.lane(a.lane);
    if (l.held == slot) {
      if (l.quiet == time_point::max() && !l.rests) rest_at(l, now);
      return true;
    }
    if (a.left_from == accepted::not_left || a.issued < a.operations.size()) return false;
    ended(l, now);
    return true;
  }

  /// Blocks of an operation were placed, and so was the gate beside it.
  [[gnu::cold]] void looks(std::uint32_t slot, time_point now) noexcept {
    const accepted& a = queues_[slot];
    lane_state& l = queues_.lane(a.lane);
    // If each operation has a gate, the next gate reports that this operation has ended.
    if (l.held == slot && costs_.gate_every > 1)
      rest_at(l, now + a.operations[a.issued - 1]->expected);
  }

  /// A segment of a stopped lane has ended, or has run through.
  [[gnu::cold]] void ended(lane_state& l, time_point now) noexcept {
    if (--l.going == 0) rest_at(l, now);
  }

  /// Work of a resumed lane has started.
  [[gnu::cold]] void resumed(lane_state& l, std::uint32_t id, time_point now) noexcept {
    l.resuming = false;
    tell(l, now + latency_, lane_event(device_event::kind::lane_resumed, id));
  }

  /// The number of blocks that had started and exited, to be run from their beginning again.
  [[nodiscard]] std::uint64_t restarted_blocks() const noexcept { return restarted_; }

private:
  static device_event lane_event(device_event::kind what, std::uint32_t id) noexcept {
    device_event e;
    e.what = what;
    e.lane = lane_id{id};
    return e;
  }

  void tell(lane_state& l, time_point at, const device_event& e) noexcept {
    l.last_told = std::max(l.last_told, at);
    events_.lane(l.last_told, e);
  }
  void enlist(std::uint32_t id, time_point at) noexcept {
    moving_.push_back(id);
    next_ = std::min(next_, at);
  }
  void rest_at(lane_state& l, time_point at) noexcept {
    l.quiet = at;
    next_ = std::min(next_, at);
  }

  /// The lane's gates and blocks have seen the request. Waiting segments are withdrawn; submitted
  /// segments continue to their next gate, run through, or end.
  void stop(std::uint32_t id, time_point now) noexcept {
    lane_state& l = queues_.lane(id);
    l.stopped = true;
    l.going = l.outstanding - l.waiters;
    queues_.withdraw(l);
    if (l.going == 0) return rest_at(l, now);
    if (!l.busy || !queues_[l.current].preemptible) return;
    const accepted& a = queues_[l.current];
    const operation& op = *a.operations[a.issued - 1];
    restarted_ += scheduler_.leave(l.grid, op.preemptible == preemptibility::at_checkpoints,
                                   op.checkpoint, now);
  }

  void come_to_rest(std::uint32_t id, time_point now, duration latency) noexcept {
    lane_state& l = queues_.lane(id);
    l.quiet = time_point::max();
    if (l.resuming) resumed(l, id, now); // although nothing was left to resume
    std::uint32_t oldest = none;         // reverses the list
    std::uint32_t slot = l.newest;
    for (std::uint32_t n = l.outstanding - (l.held != none ? 1 : 0); n > 0; --n)
      oldest = std::exchange(slot, std::exchange(queues_[slot].lane_previous, oldest));
    while (oldest != none) {
      const accepted& a = queues_[oldest];
      device_event e;
      e.what = device_event::kind::segment_preempted;
      e.segment = a.id;
      e.operation = a.issued == 0 ? 0 : a.left_from;
      tell(l, now + latency, e);
      queues_.retire(std::exchange(oldest, a.lane_previous));
    }
    l.newest = l.held;
    if (l.held != none) queues_.rest();
    l.rests = true;
    if (l.flagged) l.lowered = now + costs_.flagged + 2 * latency; // when the host has seen it exit
    tell(l, now + latency, lane_event(device_event::kind::lane_yielded, id));
  }

  yield_costs costs_;
  duration latency_;
  queues& queues_;
  block_scheduler& scheduler_;
  event_queue& events_;
  std::vector<std::uint32_t> moving_; ///< lanes that were asked to yield and are not at rest
  time_point next_ = time_point::max();
  std::uint64_t restarted_ = 0;
};

} // namespace gsched::sim

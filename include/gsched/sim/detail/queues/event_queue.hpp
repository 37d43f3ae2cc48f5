// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/device/device.hpp>
#include <gsched/sim/detail/blocks/sm_map.hpp>
#include <gsched/sim/detail/queues/event_ring.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace gsched::sim {

/// Pending device-to-host events, ordered by visibility time.
///
/// Order    by the time at which the host can see the event; at equal times blocks before segment
///          ends before lanes.
/// Cost     O(1) a call, except lane(): O(later events of lanes).
class event_queue {
public:
  event_queue(std::size_t max_segments, std::size_t max_block_events)
      : ends_(max_segments), blocks_(max_block_events), lanes_(0) {}

  /// The number of segment events that are pending. Accepting a segment reserves capacity for its
  /// events.
  [[nodiscard]] std::size_t ends() const noexcept { return ends_.size() + preempted_; }
  [[nodiscard]] std::size_t free_block_slots() const noexcept {
    return blocks_.capacity() - blocks_.size();
  }
  /// Reserves capacity for the events of one more lane that yields. Set-up.
  void open_lane() {
    constexpr std::size_t each = 4; // yielded and resumed, twice: a yield follows a polled resume
    lanes_.grow(std::max(lanes_.capacity(), ends_.capacity()) + each);
  }

  void end(time_point at, const device_event& e) noexcept { ends_.push(at, e); }
  /// Adds an event of a lane that yields; times may decrease.
  void lane(time_point at, const device_event& e) noexcept {
    preempted_ += e.what == device_event::kind::segment_preempted;
    lanes_.push_in_order(at, e);
  }
  /// Adds block events and returns their number.
  std::size_t blocks(time_point at, const device_event& e, const sm_map& map,
                     std::uint32_t slices) noexcept {
    return push_groups(blocks_, at, e, map, slices);
  }

  [[nodiscard]] time_point next() const noexcept {
    return std::min(std::min(blocks_.next(), ends_.next()), lanes_.next());
  }
  /// Removes the first event; requires a next().
  device_event take() noexcept {
    event_ring& of_segments = blocks_.next() <= ends_.next() ? blocks_ : ends_;
    event_ring& first = of_segments.next() <= lanes_.next() ? of_segments : lanes_;
    const device_event e = first.front().event;
    first.pop();
    preempted_ -= e.what == device_event::kind::segment_preempted;
    return e;
  }

private:
  event_ring ends_;
  event_ring blocks_;
  event_ring lanes_;
  std::size_t preempted_ = 0; ///< among lanes_
};

} // namespace gsched::sim

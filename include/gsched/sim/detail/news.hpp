// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/device/device.hpp>
#include <gsched/sim/detail/notices.hpp>
#include <gsched/sim/detail/sm_map.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace gsched::sim {

/// All that a device has to tell its host.
///
/// Order    by the time at which the host can see it; at one time blocks before ends before lanes.
/// Cost     O(1) a call, but for lane(): O(events of lanes that are to be seen later).
class news {
public:
  news(std::size_t max_segments, std::size_t max_block_events)
      : ends_(max_segments), blocks_(max_block_events), lanes_(0) {}

  /// What segments and their blocks may still tell: whoever takes a segment keeps room for it.
  [[nodiscard]] std::size_t ends() const noexcept { return ends_.size() + preempted_; }
  [[nodiscard]] std::size_t block_room() const noexcept {
    return blocks_.capacity() - blocks_.size();
  }
  /// Room for what one more lane that yields can tell. Set-up.
  void open_lane() {
    constexpr std::size_t each = 4; // yielded and resumed, twice: yields follow polled ones
    lanes_.grow(std::max(lanes_.capacity(), ends_.capacity()) + each);
  }

  void end(time_point at, const device_event& e) noexcept { ends_.push(at, e); }
  /// Of a lane that yields; times may fall.
  void lane(time_point at, const device_event& e) noexcept {
    preempted_ += e.what == device_event::kind::segment_preempted;
    lanes_.push_in_order(at, e);
  }
  /// Says how many events that makes.
  std::size_t blocks(time_point at, const device_event& e, const sm_map& map,
                     std::uint32_t pieces) noexcept {
    return push_groups(blocks_, at, e, map, pieces);
  }

  [[nodiscard]] time_point next() const noexcept {
    return std::min(std::min(blocks_.next(), ends_.next()), lanes_.next());
  }
  /// Only if there is a next().
  device_event take() noexcept {
    notices& of_segments = blocks_.next() <= ends_.next() ? blocks_ : ends_;
    notices& first = of_segments.next() <= lanes_.next() ? of_segments : lanes_;
    const device_event e = first.front().event;
    first.pop();
    preempted_ -= e.what == device_event::kind::segment_preempted;
    return e;
  }

private:
  notices ends_;
  notices blocks_;
  notices lanes_;
  std::size_t preempted_ = 0; ///< among lanes_
};

} // namespace gsched::sim

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/device/device.hpp>
#include <gsched/sim/detail/blocks/sm_map.hpp>
#include <gsched/sim/detail/uninitialised.hpp>

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace gsched::sim {

/// A FIFO of events, each with the time from which the host can see it; times never decrease. The
/// capacity is fixed; the caller limits the number of events.
///
/// Cost     O(1) a call, except push_in_order: O(later events). Memory is touched only when it is
///          used.
class event_ring {
public:
  struct entry {
    time_point at{};
    device_event event{};
  };

  explicit event_ring(std::size_t capacity) : capacity_(capacity), ring_(capacity) {}

  void push(time_point at, const device_event& e) noexcept {
    assert(size_ < capacity_);
    place(size_) = {at, e};
    ++size_;
  }
  /// Inserts before the events that are visible later.
  void push_in_order(time_point at, const device_event& e) noexcept {
    push(at, e);
    for (std::size_t i = size_ - 1; i > 0 && place(i - 1).at > at; --i)
      std::swap(place(i - 1), place(i));
  }
  /// Replaces the storage. Set-up.
  void grow(std::size_t capacity) {
    event_ring larger(capacity);
    for (; size_ > 0; pop()) larger.push(front().at, front().event);
    *this = std::move(larger);
  }
  void pop() noexcept {
    if (++head_ == capacity_) head_ = 0;
    --size_;
    if (size_ == 0) head_ = 0; // a ring that drains stays in the same cache lines
  }
  [[nodiscard]] const entry& front() const noexcept { return ring_[head_]; }
  [[nodiscard]] time_point next() const noexcept {
    return size_ == 0 ? time_point::max() : front().at;
  }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }

private:
  entry& place(std::size_t i) noexcept {
    const std::size_t at = head_ + i;
    return ring_[at < capacity_ ? at : at - capacity_];
  }

  std::size_t capacity_;
  uninitialised<entry> ring_;
  std::size_t head_ = 0;
  std::size_t size_ = 0;
};

/// Adds `e` for each group of up to 16 blocks on one SM of a list of slices. Returns the number of
/// events.
[[nodiscard]] inline std::size_t push_groups(event_ring& out, time_point at, device_event e,
                                             const sm_map& map, std::uint32_t slices) noexcept {
  constexpr std::uint32_t group = 16;
  std::size_t n = 0;
  for (; slices != sm_map::none; slices = map.at(slices).next) {
    const sm_map::slice& p = map.at(slices);
    for (std::uint32_t sm = p.first; sm < p.first + p.sms; ++sm) {
      e.sm = static_cast<std::uint16_t>(sm);
      for (std::uint32_t left = p.blocks; left > 0; left -= e.blocks, ++n) {
        e.blocks = static_cast<std::uint8_t>(std::min(left, group));
        out.push(at, e);
      }
    }
  }
  return n;
}

} // namespace gsched::sim

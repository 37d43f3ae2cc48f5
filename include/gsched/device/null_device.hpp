// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/device/device.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <system_error>
#include <vector>

namespace gsched {

/// A device on which operations take no work: benchmarks use it to measure the caller. It is the
/// smallest model of the device concept.
///
/// Order    each lane is a FIFO; a segment ends `latency` after it reached the head of its lane.
/// Errors   submit returns too_small while `outstanding` segments of the lane have not been polled.
/// Cost     O(1) a call, O(lanes) for poll; no allocation after open_lane.
/// Threads  one owner; no locking.
class null_device {
public:
  explicit null_device(device_limits limits, duration latency = std::chrono::nanoseconds{1},
                       std::size_t outstanding = 1024)
      : limits_(limits), latency_(latency), capacity_(outstanding) {
    lanes_.reserve(limits.lanes);
  }

  lane_id open_lane(const lane_options& how) {
    static_cast<void>(how.checked());
    if (lanes_.size() >= limits_.lanes)
      throw error(errc::too_small, "null device: lane " + std::to_string(lanes_.size()) +
                                       ", expected at most " + std::to_string(limits_.lanes));
    lanes_.push_back(lane{std::vector<entry>(capacity_), 0, 0});
    return lane_id{static_cast<std::uint32_t>(lanes_.size() - 1)};
  }

  void load(program& p) { p.set_id(program_id{programs_++}); }

  [[nodiscard]] std::error_code submit(const segment& s) noexcept {
    if (index(s.lane) >= lanes_.size()) return errc::bad_option;
    lane& l = lanes_[index(s.lane)];
    if (l.tail - l.head == capacity_) return errc::too_small;
    const time_point start =
        l.tail == l.head ? now_ : std::max(now_, l.slots[(l.tail - 1) % capacity_].end);
    l.slots[l.tail % capacity_] = {s.id, start + latency_};
    ++l.tail;
    return {};
  }

  [[nodiscard]] std::size_t poll(std::span<device_event> out) noexcept {
    std::size_t n = 0;
    for (lane& l : lanes_) {
      while (n < out.size() && l.head != l.tail && l.slots[l.head % capacity_].end <= now_) {
        out[n] = device_event{};
        out[n].segment = l.slots[l.head % capacity_].id;
        ++n;
        ++l.head;
      }
    }
    return n;
  }

  /// The head of a lane has started; the segments behind it have not.
  [[nodiscard]] std::size_t evict(lane_id id) noexcept {
    lane& l = lanes_[index(id)];
    if (l.tail - l.head < 2) return 0;
    const std::size_t n = l.tail - l.head - 1;
    l.tail = l.head + 1;
    return n;
  }

  void wait(time_point t) noexcept {
    time_point next = t;
    for (const lane& l : lanes_)
      if (l.head != l.tail) next = std::min(next, l.slots[l.head % capacity_].end);
    now_ = std::max(now_, next);
  }

  [[nodiscard]] time_point now() const noexcept { return now_; }
  [[nodiscard]] const device_limits& limits() const noexcept { return limits_; }

private:
  struct entry {
    segment_id id{};
    time_point end{};
  };
  struct lane {
    std::vector<entry> slots;
    std::size_t head = 0;
    std::size_t tail = 0;
  };

  device_limits limits_;
  duration latency_;
  std::size_t capacity_;
  std::vector<lane> lanes_;
  std::uint32_t programs_ = 0;
  time_point now_{};
};

static_assert(device<null_device>);

} // namespace gsched

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/sim/device.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gsched::testing {

[[nodiscard]] inline operation kernel_of(std::uint32_t blocks, double us,
                                         preemptibility how = preemptibility::never) {
  operation op;
  op.launch.grid = {blocks, 1, 1};
  op.launch.block = {256, 1, 1};
  op.launch.registers_per_thread = 64; // four on an SM: 528 at once
  op.expected = from_us(us);
  op.preemptible = how;
  op.checkpoint = from_us(0.5);
  return op;
}
[[nodiscard]] inline operation copy_of(double us) {
  operation op;
  op.kind = operation_kind::memcpy;
  op.direction = copy_direction::host_to_device;
  op.expected = from_us(us);
  return op;
}
[[nodiscard]] inline program chain(std::size_t n, const operation& op) {
  return program("chain", std::vector<operation>(n, op));
}

/// Without contention, so that times can be computed.
[[nodiscard]] inline sim::preset quiet_preset() {
  sim::preset p = sim::h200();
  p.laws.contended = false;
  return p;
}

/// A device that records when operations start and end, by lane.
struct noted {
  explicit noted(const sim::preset& p = quiet_preset())
      : d(p, {64, 64}, {this, started, ended, nullptr, nullptr}) {}
  noted(const noted&) = delete;

  static void started(void* self, time_point at, const sim::operation_mark& m) noexcept {
    static_cast<noted*>(self)->starts[index(m.lane)].push_back(at);
  }
  static void ended(void* self, time_point at, const sim::operation_mark& m) noexcept {
    static_cast<noted*>(self)->ends[index(m.lane)].push_back(at);
  }

  segment_id submit(lane_id lane, const program& p) {
    segment s;
    s.id = segment_id{++ids};
    s.lane = lane;
    s.program = p.id();
    s.operations = p.range(0, p.size());
    REQUIRE(!d.submit(s));
    return s.id;
  }
  /// Takes events up to and including the next of a kind.
  device_event until(device_event::kind what) {
    std::array<device_event, 1> one;
    do {
      d.wait(no_deadline);
      REQUIRE(d.poll(one) == 1);
      taken.push_back(one[0]);
    } while (one[0].what != what);
    return one[0];
  }
  /// The GPU continues for that long without polls of the host.
  void away(double us) {
    d.spend(from_us(us));
    static_cast<void>(d.busy_time());
  }

  std::array<std::vector<time_point>, 2> starts, ends;
  std::vector<device_event> taken;
  std::uint64_t ids = 0;
  sim::device d;
  lane_id low = d.open_lane({0, {}, true});
  lane_id high = d.open_lane({1, {}});
};

} // namespace gsched::testing

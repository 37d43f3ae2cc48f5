// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/device/preemptive_device.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

namespace gsched::testing {

/// A device with two lanes that yield and one that does not, and a record of all its events.
template <class Rig>
class yielding_device {
public:
  using kind = device_event::kind;

  yielding_device()
      : device(Rig::make()), plain("plain", kernels({preemptibility::never})),
        leaver("leaver", kernels({preemptibility::at_checkpoints, preemptibility::between_blocks})),
        mixed("mixed", kernels({preemptibility::at_checkpoints, preemptibility::never})) {
    low = device.open_lane({0, {}, true});
    other = device.open_lane({0, {}, true});
    high = device.open_lane({1, {}});
    for (program* p : {&plain, &leaver, &mixed}) device.load(*p);
  }

  struct submitted {
    lane_id lane{};
    const program* of = nullptr;
    std::size_t first = 0;
    std::size_t last = 0;
  };

  segment_id submit(lane_id lane, const program& p, std::size_t first, std::size_t last) {
    segment s;
    s.id = segment_id{segments.size()};
    s.lane = lane;
    s.program = p.id();
    s.first = static_cast<std::uint32_t>(first);
    s.operations = p.range(first, last);
    REQUIRE(!device.submit(s));
    segments.push_back({lane, &p, first, last});
    return s.id;
  }
  segment_id submit(lane_id lane, const program& p) { return submit(lane, p, 0, p.size()); }

  /// Polls for that long.
  void run_for(double us) {
    run([until = device.now() + from_us(us), this] { return device.now() >= until; });
  }
  /// Polls until that many events were recorded, or for ten seconds.
  void until(kind what, std::size_t times) {
    const time_point late = device.now() + from_us(1e7);
    run([&] { return count(what) >= times || device.now() >= late; });
    REQUIRE(count(what) == times);
  }
  /// Yields a lane and waits until it has yielded.
  void yield(lane_id lane) {
    const std::size_t before = count(kind::lane_yielded);
    device.yield(lane);
    until(kind::lane_yielded, before + 1);
    CHECK(events.back().what == kind::lane_yielded);
    CHECK(events.back().lane == lane);
  }
  void resume(lane_id lane) {
    const std::size_t before = count(kind::lane_resumed);
    device.resume(lane);
    until(kind::lane_resumed, before + 1);
  }

  [[nodiscard]] std::size_t count(kind what) const {
    return static_cast<std::size_t>(
        std::count_if(events.begin(), events.end(), [&](auto& e) { return e.what == what; }));
  }
  /// How a segment ended; nothing if it has not. Two ends are a fault.
  [[nodiscard]] std::optional<device_event> end_of(segment_id id) const {
    std::optional<device_event> found;
    for (const device_event& e : events) {
      if (e.segment != id || (e.what != kind::segment_done && e.what != kind::segment_preempted))
        continue;
      CHECK(!found);
      found = e;
    }
    return found;
  }
  [[nodiscard]] bool done(segment_id id) const {
    const std::optional<device_event> e = end_of(id);
    return e && e->what == kind::segment_done;
  }
  [[nodiscard]] bool preempted(segment_id id) const {
    const std::optional<device_event> e = end_of(id);
    return e && e->what == kind::segment_preempted;
  }
  /// Waits until all submitted work has ended, and runs the rest of preempted segments on `lane`.
  void finish(lane_id lane) {
    for (std::size_t i = 0; i < segments.size(); ++i) { // which grows
      const segment_id id{i};
      const time_point late = device.now() + from_us(1e7);
      run([&] { return end_of(id) || device.now() >= late; });
      REQUIRE(end_of(id));
      if (preempted(id) && again_.insert(i).second) again(id, lane);
    }
  }
  /// Submits the rest of a preempted segment.
  segment_id again(segment_id id, lane_id lane) {
    again_.insert(index(id));
    const submitted s = segments[index(id)];
    return submit(lane, *s.of, s.first + end_of(id)->operation, s.last);
  }

  typename Rig::device device;
  program plain;  ///< kernels that are not preemptible
  program leaver; ///< preemptible kernels, of both kinds
  program mixed;
  lane_id low{}, other{}, high{};
  std::vector<submitted> segments; ///< by id
  std::vector<device_event> events;

private:
  template <class Stop>
  void run(Stop stop) {
    while (!stop()) {
      device.wait(device.now() + from_us(20));
      std::array<device_event, 1> one;
      while (!stop() && device.poll(one) == 1) {
        CHECK(one[0].what != kind::segment_failed);
        events.push_back(one[0]);
      }
    }
  }

  static std::vector<operation> kernels(const std::vector<preemptibility>& ways) {
    std::vector<operation> ops(12);
    for (std::size_t i = 0; i < ops.size(); ++i) {
      operation& op = ops[i];
      op.kernel = kernel_id{static_cast<std::uint32_t>(i)};
      op.launch.grid = {static_cast<std::uint32_t>(i % 3 == 2 ? 4000 : 100 + 40 * i), 1, 1};
      op.launch.block = {128, 1, 1};
      op.launch.registers_per_thread = 32;
      op.expected = from_us(20.0 + static_cast<double>(i % 4) * 7);
      op.preemptible = ways[i % ways.size()];
      op.checkpoint = from_us(2);
    }
    return ops;
  }

  std::set<std::uint64_t> again_; ///< preempted segments that were submitted again
};

} // namespace gsched::testing

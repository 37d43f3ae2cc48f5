// SPDX-License-Identifier: Apache-2.0
//
// What a lane that yields submits to the hardware, and when it reports that it has yielded: as on a
// GPU.
#include <sim/noted_device.hpp>

#include <gsched/sim/device.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace gsched::testing {
namespace {

using event_kind = device_event::kind;

} // namespace

TEST_CASE(
    "a lane that yields has one graph with gates at a time, and the next when its end is seen") {
  const sim::preset p = quiet_preset();
  for (const bool yields : {true, false}) {
    CAPTURE(yields);
    noted n;
    program work = chain(10, kernel_of(132, 20));
    n.d.load(work);
    const lane_id lane = yields ? n.low : n.high;
    const std::size_t at = index(lane);
    for (int i = 0; i < 3; ++i) n.submit(lane, work);
    while (n.ends[at].size() < 10) n.away(0.5);
    std::array<device_event, 1> one;
    const time_point ended = n.d.now(); // which is not observable yet
    CHECK(n.d.poll(one) == 0);
    CHECK(n.d.now() - ended == p.host.poll);
    n.away(1000); // longer than all of the work
    CHECK(n.starts[at].size() == (yields ? 10 : 30));
    if (!yields) continue;
    const time_point seen = n.d.now();
    CHECK(n.d.poll(one) == 1);
    CHECK(n.d.now() - seen >= p.host.graph); // when the host pays for it
    static_cast<void>(n.until(event_kind::segment_done));
    CHECK(n.starts[0].size() == 20);
    CHECK(n.starts[0][10] >= seen + p.host.start);
    CHECK(n.starts[0][10] <= seen + p.host.start + p.host.start_operation * 10);
    static_cast<void>(n.until(event_kind::segment_done));
    const duration between = n.starts[0][20] - n.ends[0][19];
    CHECK(between >= p.host.segment_notification + p.host.start);
    CHECK(n.d.evict(n.low) == 0);
  }
}

TEST_CASE("what waits for its lane is taken back, and a lane on which all waits is at rest") {
  noted n;
  program work = chain(10, kernel_of(132, 20));
  n.d.load(work);
  for (int i = 0; i < 3; ++i) n.submit(n.low, work);
  n.away(50);
  CHECK(n.d.evict(n.low) == 2);
  const segment_id behind = n.submit(n.low, work);
  n.d.yield(n.low);
  CHECK(n.until(event_kind::segment_preempted).segment == behind);
  static_cast<void>(n.until(event_kind::lane_yielded));
  n.d.resume(n.low);
  static_cast<void>(n.until(event_kind::segment_done)); // the first
  CHECK(n.starts[0].size() == 10);

  const segment_id first = n.submit(n.low, work);
  n.submit(n.low, work);
  n.away(400);
  n.d.yield(n.low); // the first has ended, which the host has not observed
  CHECK(n.until(event_kind::segment_done).segment == first);
  CHECK(n.until(event_kind::segment_preempted).operation == 0);
  static_cast<void>(n.until(event_kind::lane_yielded));
  CHECK(n.starts[0].size() == 20);
}

TEST_CASE("what has been handed over is held at its first gate, though it has not started") {
  noted n;
  program work = chain(10, kernel_of(132, 20));
  n.d.load(work);
  for (std::size_t i = 0; i < 4; ++i) { // so that work submitted at once progresses
    if (i == 0) n.submit(n.low, work);
    n.d.yield(n.low);
    static_cast<void>(n.until(event_kind::lane_yielded));
    CHECK(n.starts[0].size() == 2 * (i + 1));
    CHECK(n.taken.back().what == event_kind::lane_yielded);
    n.d.resume(n.low);
  }
  static_cast<void>(n.until(event_kind::segment_done));
  CHECK(n.starts[0].size() == 10);
}

TEST_CASE("copies of no program, and graphs too short for a gate, run to their ends") {
  noted n;
  program two = chain(2, kernel_of(132, 20));
  program three = chain(3, kernel_of(132, 20));
  n.d.load(two);
  n.d.load(three);
  const std::array<operation, 3> copies{copy_of(50), copy_of(50), copy_of(50)};
  const std::array<const operation*, 3> pointers{&copies[0], &copies[1], &copies[2]};
  segment s;
  s.id = segment_id{100};
  s.lane = n.low;
  s.operations = pointers;
  REQUIRE(!n.d.submit(s));
  const segment_id behind = n.submit(n.low, three);
  n.away(20);
  n.d.yield(n.low);
  CHECK(n.until(event_kind::segment_done).segment == segment_id{100});
  CHECK(n.until(event_kind::lane_yielded).lane == n.low);
  CHECK(n.starts[0].size() == 5); // submitted as well: it continues to its gate
  CHECK(n.taken.size() == 2);
  n.d.resume(n.low);
  CHECK(n.until(event_kind::segment_done).segment == behind);
  for (const program* p : {&two, &three}) {
    const std::size_t before = n.starts[0].size();
    n.submit(n.low, *p);
    n.away(10); // in the first kernel; a gate is beside the second of three
    n.d.yield(n.low);
    static_cast<void>(n.until(event_kind::lane_yielded));
    CHECK(n.starts[0].size() == before + 2);
    CHECK((n.taken[n.taken.size() - 2].what == event_kind::segment_done) == (p == &two));
    n.d.resume(n.low);
    if (p == &three) static_cast<void>(n.until(event_kind::segment_done));
  }
}

TEST_CASE("a lane has yielded when the kernel beside the gate has had its time") {
  for (const std::uint32_t every : {1u, 2u}) {
    CAPTURE(every);
    sim::preset p = quiet_preset();
    p.yields.gate_every = every;
    noted n(p);
    program work = chain(20, kernel_of(528 * 4, 40));
    program urgent = chain(1, kernel_of(528, 200));
    n.d.load(work);
    n.d.load(urgent);
    n.submit(n.low, work);
    n.away(60); // in the second kernel: the gate beside it has read the request
    n.d.yield(n.low);
    const std::size_t looks = every == 1 ? 2 : 3; // the next kernel with a gate
    while (n.starts[0].size() <= looks) n.away(1);
    const time_point stands = n.starts[0][looks];
    n.submit(n.high, urgent); // uses the GPU after the first wave of that kernel
    static_cast<void>(n.until(event_kind::lane_yielded));
    const time_point told = n.d.now();
    if (every == 1) {
      CHECK(told > stands + from_us(200)); // the next gate reports that it has ended
      CHECK(n.ends[0].size() == looks + 1);
    } else {
      CHECK(to_us(told - stands) ==
            doctest::Approx(40 + to_us(p.host.block_notification)).epsilon(0.05));
      CHECK(n.ends[0].size() == looks); // it still runs
      n.d.resume(n.low);                // and the work behind it waits nevertheless
    }
    n.away(1000);
    if (every == 1) n.d.resume(n.low);
    static_cast<void>(n.until(event_kind::segment_done));
    if (n.taken.back().segment != segment_id{1})
      static_cast<void>(n.until(event_kind::segment_done));
    REQUIRE(n.starts[0].size() == 20);
    for (std::size_t i = 1; i < 20; ++i) CHECK(n.starts[0][i] > n.ends[0][i - 1]);
  }
}

} // namespace gsched::testing

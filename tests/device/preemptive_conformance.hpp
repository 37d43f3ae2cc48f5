// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "allocations.hpp"
#include "device/preemptive_driven.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

/// The clauses of the preemptive_device concept, one case each, for any device. A rig describes the
/// device:
///   using device; loads programs of operations without handles, by stand-ins static device make();
///   three lanes and 64 segments at least static constexpr bool preemptible; whether it has
///   preemptible kernels; if not, all are held static std::uint64_t wrong_blocks(device&, const
///   program&, std::uint64_t runs);
///                                         blocks of a program of preemptible kernels, run that
///                                         often, that have not run to their end as often, if it
///                                         can tell
/// Apply each suite in the device's own test: TEST_CASE_TEMPLATE_APPLY(device_yielding, rigs).
namespace gsched::testing {

TEST_CASE_TEMPLATE_DEFINE("Y1: a lane that yields stops, says so once, and stays stopped", Rig,
                          device_yielding) {
  using kind = device_event::kind;
  yielding_device<Rig> d;
  d.yield(d.low); // nothing runs
  CHECK(d.events.size() == 1);
  d.resume(d.low);
  std::size_t stopped = 0;
  for (int i = 0; i < 10; ++i) {
    const segment_id id = d.submit(d.low, d.plain);
    d.run_for(25.0 * i);
    d.yield(d.low);
    const std::size_t said = d.events.size();
    const bool stays = !d.end_of(id);
    d.run_for(1500); // longer than all of the work
    CHECK(d.events.size() == said);
    stopped += stays ? 1u : 0u;
    d.resume(d.low);
    if (d.preempted(id)) d.again(id, d.low);
    d.until(kind::segment_done, static_cast<std::size_t>(i) + 1);
  }
  CHECK(stopped >= 5);
  CHECK(d.count(kind::lane_yielded) == 11);
  CHECK(d.count(kind::lane_resumed) == 11);
}

TEST_CASE_TEMPLATE_DEFINE("Y2: segments of kernels that leave are preempted, in lane order, before "
                          "their lane has yielded",
                          Rig, device_leaving) {
  using kind = device_event::kind;
  yielding_device<Rig> d;
  std::size_t in_part = 0;
  for (int i = 0; Rig::preemptible && i < 12; ++i) {
    std::vector<segment_id> ids;
    for (std::size_t first = 0; first < 12; first += 4)
      ids.push_back(d.submit(d.low, d.leaver, first, first + 4));
    d.run_for(10.0 + 20.0 * i);
    d.events.clear();
    d.yield(d.low);
    std::vector<segment_id> told; // up to and without lane_yielded, which is last
    bool preempted = false;
    for (const device_event& e : d.events) {
      if (e.what == kind::lane_yielded) continue;
      REQUIRE((e.what == kind::segment_done || e.what == kind::segment_preempted));
      if (preempted) CHECK(e.what == kind::segment_preempted);
      if (preempted) CHECK(e.operation == 0);
      if (e.what == kind::segment_preempted) CHECK(e.operation < 4);
      preempted = preempted || e.what == kind::segment_preempted;
      in_part += e.what == kind::segment_preempted && e.operation > 0 ? 1u : 0u;
      told.push_back(e.segment);
    }
    CHECK(std::equal(told.rbegin(), told.rend(), ids.rbegin())); // the last segments are complete
    d.resume(d.low);
    for (const segment_id id : told)
      if (d.preempted(id)) d.again(id, d.low);
    d.until(kind::segment_done, told.size());
  }
  if (Rig::preemptible) CHECK(in_part >= 3);
}

TEST_CASE_TEMPLATE_DEFINE(
    "Y3: what is left of a preempted segment runs anywhere, and no block that "
    "has ended runs again",
    Rig, device_progress) {
  yielding_device<Rig> d;
  std::size_t restored = 0;
  for (int i = 0; Rig::preemptible && i < 40; ++i) {
    segment_id id = d.submit(d.low, d.leaver);
    lane_id on = d.low;
    for (int k = 0; k < 4 && !d.done(id); ++k) { // preempted repeatedly, on alternating lanes
      d.run_for(1.0 + 7.0 * i);
      d.yield(on);
      d.resume(on);
      REQUIRE(d.end_of(id));
      if (d.done(id)) break;
      const std::size_t ended = d.end_of(id)->operation;
      const std::size_t size = d.segments[index(id)].last - d.segments[index(id)].first;
      CHECK(ended < size);
      on = on == d.low ? d.other : d.low;
      id = d.again(id, on);
      ++restored;
    }
    d.finish(d.high);
    CHECK(Rig::wrong_blocks(d.device, d.leaver, static_cast<std::uint64_t>(i) + 1) == 0);
  }
  if (Rig::preemptible) CHECK(restored >= 40);
}

TEST_CASE_TEMPLATE_DEFINE("Y4: other segments stay where they are until the lane resumes", Rig,
                          device_holding) {
  using kind = device_event::kind;
  yielding_device<Rig> d;
  std::size_t held = 0;
  for (int i = 0; i < 12; ++i) {
    const program& p = i % 2 == 0 ? d.plain : d.mixed;
    const segment_id head = d.submit(d.low, p);
    const segment_id behind = d.submit(d.low, d.plain, 0, 2);
    d.run_for(30 + 20.0 * i);
    d.yield(d.low);
    if (d.preempted(head)) CHECK(d.end_of(head)->operation == 0);
    if (d.preempted(behind)) CHECK(d.end_of(behind)->operation == 0);
    const bool stays = !d.end_of(head);
    held += stays ? 1u : 0u;
    d.run_for(200);
    CHECK(stays == !d.end_of(head));
    d.resume(d.low);
    d.finish(d.low);
    CHECK((!stays || d.done(head)));
  }
  CHECK(held >= 6);
  CHECK(d.count(kind::lane_yielded) == 12);
}

TEST_CASE_TEMPLATE_DEFINE("Y5: a lane that resumes goes on where it stood, and says so once", Rig,
                          device_resuming) {
  using kind = device_event::kind;
  yielding_device<Rig> d;
  d.yield(d.low);
  d.resume(d.low); // nothing stayed: at once
  CHECK(d.events.size() == 2);
  const segment_id id = d.submit(d.low, d.plain);
  std::size_t resumed = 1;
  while (!d.done(id) && resumed < 100) {
    d.run_for(20);
    d.yield(d.low);
    CHECK(d.count(kind::lane_resumed) == resumed);
    d.resume(d.low);
    ++resumed;
    if (d.preempted(id)) break; // it had not started
  }
  CHECK(resumed > 3);
  CHECK(resumed < 30); // each time some of its 12 operations ran
  d.finish(d.low);
  CHECK(d.count(kind::lane_resumed) == resumed);
  CHECK(d.count(kind::lane_yielded) == resumed);
}

TEST_CASE_TEMPLATE_DEFINE("Y6: the other lanes take no notice", Rig, device_others) {
  yielding_device<Rig> d;
  for (const program* p : {&d.plain, &d.leaver}) {
    const segment_id stopped = d.submit(d.low, *p);
    std::vector<segment_id> going;
    for (int i = 0; i < 3; ++i)
      for (const lane_id lane : {d.other, d.high}) {
        const std::size_t from = lane == d.other ? 0 : 6;
        const program& work = p == &d.plain ? d.mixed : d.plain;
        going.push_back(d.submit(lane, work, from, from + 6));
      }
    d.run_for(60);
    d.yield(d.low);
    const time_point late = d.device.now() + from_us(1e7);
    const auto all = [&] {
      return std::all_of(going.begin(), going.end(), [&](segment_id id) { return d.done(id); });
    };
    while (!all() && d.device.now() < late) d.run_for(100);
    CHECK(all()); // while it is stopped
    CHECK(!d.done(stopped));
    going.push_back(d.submit(d.high, d.plain, 0, 3));
    while (!all() && d.device.now() < late) d.run_for(100);
    CHECK(all());
    d.resume(d.low);
    d.finish(d.low);
  }
}

TEST_CASE_TEMPLATE_DEFINE("Y7: yield and resume do not allocate", Rig, device_yield_hot_path) {
  yielding_device<Rig> d;
  std::size_t by_calls = 0;
  for (int i = 0; i < 20; ++i) {
    const program& p = i % 3 == 0 ? d.plain : i % 3 == 1 ? d.leaver : d.mixed;
    d.submit(d.low, p, 0, 6);
    d.submit(d.low, d.plain, 6, 12);
    d.run_for(7.0 * i);
    std::size_t before = allocations();
    d.device.yield(d.low);
    by_calls += allocations() - before;
    d.until(device_event::kind::lane_yielded, static_cast<std::size_t>(i) + 1);
    before = allocations();
    d.device.resume(d.low);
    by_calls += allocations() - before;
    d.finish(d.low);
  }
  CHECK(by_calls == 0);
}

} // namespace gsched::testing

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/device/device.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

/// The clauses of the device concept, one case each, for any device. A rig describes the device:
///   using device;
///   static device make();                  two lanes and 64 segments at least
///   static constexpr bool reports_blocks;  whether instrumented segments report their blocks
/// Apply each suite in the device's own test: TEST_CASE_TEMPLATE_APPLY(device_lane_order, rigs).
namespace gsched::testing {

/// A device with a loaded program, and a record of the submitted, evicted and polled segments.
template <class Rig>
class driven_device {
public:
  explicit driven_device(std::size_t lanes = 2) : device(Rig::make()), work("work", operations()) {
    for (std::size_t i = 0; i < lanes; ++i) lane.push_back(device.open_lane({}));
    device.load(work);
    submitted.resize(lanes);
  }

  /// Submits operations [first, last) of the program to a lane; its id, if it was accepted.
  std::optional<segment_id> submit(std::size_t on, std::size_t first, std::size_t last,
                                   submission how = submission::graph, bool instrumented = false) {
    segment s;
    s.id = segment_id{next_++};
    s.lane = lane[on];
    s.how = how;
    s.instrumented = instrumented;
    s.program = work.id();
    s.first = static_cast<std::uint32_t>(first);
    s.operations = work.range(first, last);
    if (device.submit(s)) return std::nullopt;
    submitted[on].push_back(s.id);
    ++accepted;
    return s.id;
  }

  std::size_t poll(std::size_t most = 16) {
    std::array<device_event, 16> out;
    const std::size_t n = device.poll(std::span(out).first(most));
    CHECK(n <= most);
    events.insert(events.end(), out.begin(), out.begin() + static_cast<std::ptrdiff_t>(n));
    return n;
  }

  /// Waits until all accepted segments have ended.
  void drain() {
    for (int idle = 0; idle < 1000 && ends().size() + evicted < accepted; ++idle) {
      device.wait(device.now() + from_us(1e6));
      while (poll() > 0) idle = 0;
    }
  }

  [[nodiscard]] std::vector<segment_id> ends() const {
    std::vector<segment_id> ids;
    for (const device_event& e : events)
      if (e.what == device_event::kind::segment_done ||
          e.what == device_event::kind::segment_failed)
        ids.push_back(e.segment);
    return ids;
  }

  static std::vector<operation> operations() {
    std::vector<operation> ops(24);
    for (std::size_t i = 0; i < ops.size(); ++i) {
      operation& op = ops[i];
      op.kernel = kernel_id{static_cast<std::uint32_t>(i)};
      op.launch.grid = {static_cast<std::uint32_t>(1 + i * i * 17), 1, 1};
      op.launch.block = {static_cast<std::uint32_t>(32 << (i % 5)), 1, 1};
      op.launch.registers_per_thread = 32;
      op.expected = from_us(2.0 + static_cast<double>(i % 7));
    }
    ops[0].expected = from_us(200); // D4: a slow host too sees its one block start before it ends
    ops[5].kind = operation_kind::memset;
    ops[5].bytes = byte_count{4096};
    ops[11].kind = operation_kind::memcpy;
    ops[11].bytes = byte_count{65536};
    return ops;
  }

  typename Rig::device device;
  program work;
  std::vector<lane_id> lane;
  std::vector<std::vector<segment_id>> submitted; ///< by lane, without evicted segments
  std::vector<device_event> events;
  std::size_t accepted = 0;
  std::size_t evicted = 0;

private:
  std::uint64_t next_ = 0;
};

TEST_CASE_TEMPLATE_DEFINE("D1: segments of a lane end in the order of their submission", Rig,
                          device_lane_order) {
  driven_device<Rig> d;
  for (std::size_t i = 0; i < 20; ++i) CHECK(d.submit(i % 3 == 0 ? 1 : 0, 20 - i, 24 - i));
  d.drain();
  const std::vector<segment_id> ends = d.ends();
  REQUIRE(ends.size() == 20);
  for (const std::vector<segment_id>& lane : d.submitted) {
    std::vector<segment_id> of_lane;
    for (const segment_id id : ends)
      if (std::find(lane.begin(), lane.end(), id) != lane.end()) of_lane.push_back(id);
    CHECK(of_lane == lane);
  }
}

TEST_CASE_TEMPLATE_DEFINE("D2: each accepted segment is polled once unless it was evicted", Rig,
                          device_completeness) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    std::mt19937_64 random(seed);
    driven_device<Rig> d;
    std::map<segment_id, int> expected;
    for (int call = 0; call < 300; ++call) {
      const std::size_t lane = random() % 2;
      const std::size_t first = random() % 20;
      switch (random() % 5) {
      case 0:
      case 1:
        if (d.accepted - d.evicted - d.ends().size() < 60)
          CHECK(d.submit(lane, first, first + 1 + random() % 4,
                         random() % 2 == 0 ? submission::graph : submission::launches));
        break;
      case 2: d.poll(1 + random() % 4); break;
      case 3: d.device.wait(d.device.now() + from_us(static_cast<double>(random() % 50))); break;
      default:
        if (random() % 4 != 0) break;
        const std::size_t n = d.device.evict(d.lane[lane]);
        REQUIRE(n <= d.submitted[lane].size());
        d.submitted[lane].resize(d.submitted[lane].size() - n); // the newest
        d.evicted += n;
      }
    }
    d.drain();
    for (const auto& lane : d.submitted)
      for (const segment_id id : lane) ++expected[id];
    std::map<segment_id, int> polled;
    for (const segment_id id : d.ends()) ++polled[id];
    CHECK(polled == expected);
    CHECK(d.poll() == 0);
  }
}

TEST_CASE_TEMPLATE_DEFINE("D3: the blocks of a segment are polled before its end", Rig,
                          device_block_order) {
  driven_device<Rig> d;
  for (std::size_t i = 0; i < 6; ++i) {
    CHECK(d.submit(i % 2, i * 4, i * 4 + 4, submission::graph, i < 4));
    d.drain();
  }
  struct counts {
    std::uint64_t started = 0, done = 0;
  };
  std::map<std::pair<segment_id, std::uint32_t>, counts> blocks;
  std::map<segment_id, bool> ended;
  std::map<segment_id, std::uint32_t> reached;
  for (const device_event& e : d.events) {
    CHECK(!ended[e.segment]);
    if (e.what == device_event::kind::segment_done) {
      ended[e.segment] = true;
      continue;
    }
    CHECK(e.what != device_event::kind::segment_failed);
    CHECK(e.blocks >= 1);
    CHECK(e.blocks <= 16);
    CHECK(e.sm < d.device.limits().sms.count());
    CHECK(e.operation >= reached[e.segment]);
    reached[e.segment] = e.operation;
    counts& c = blocks[{e.segment, e.operation}];
    (e.what == device_event::kind::blocks_started ? c.started : c.done) += e.blocks;
    CHECK(c.done <= c.started);
  }
  std::size_t operations = 0;
  for (const auto& [key, c] : blocks) {
    const operation& op = d.work.operations()[index(key.first) * 4 + key.second];
    CHECK(op.kind == operation_kind::kernel);
    CHECK(c.started == op.launch.blocks());
    CHECK(c.done == c.started);
    ++operations;
  }
  CHECK(operations == (Rig::reports_blocks ? 14 : 0)); // 16 less a memset and a memcpy
}

TEST_CASE_TEMPLATE_DEFINE("D4: time never falls, and wait ends at the first event or on time", Rig,
                          device_time) {
  driven_device<Rig> d;
  time_point last = d.device.now();
  const auto rises = [&] {
    CHECK(d.device.now() >= last);
    last = d.device.now();
  };
  d.device.wait(last + from_us(10)); // nothing under way
  CHECK(d.device.now() >= last + from_us(10));
  rises();
  d.device.wait(last - from_us(5));
  rises();
  for (std::size_t i = 0; i < 12; ++i) {
    CHECK(d.submit(i % 2, i, i + 6));
    rises();
  }
  std::size_t polled = 0;
  for (int i = 0; i < 100000 && polled < 12; ++i) {
    const time_point until = d.device.now() + from_us(3);
    d.device.wait(until);
    rises();
    const bool early = d.device.now() < until;
    const std::size_t n = d.poll(1);
    rises();
    if (early) CHECK(n == 1); // another event that could have ended the wait
    polled += n;
  }
  CHECK(polled == 12);
  CHECK(d.submit(0, 0, 2));
  d.device.wait(d.device.now() + from_us(1e6));
  last = d.device.now();
  d.device.wait(last + from_us(1e6)); // an event can be polled: no wait
  CHECK(d.device.now() < last + from_us(1e6));
  d.drain();
  if (!Rig::reports_blocks) return;
  // The first block ends the wait, not the last. A thread that is descheduled between the two calls
  // may find all events at once, so a real device has several attempts.
  bool early = false;
  for (int attempt = 0; attempt < 20 && !early; ++attempt) {
    CHECK(d.submit(0, 0, 3, submission::graph, true)); // more than 16 events
    d.device.wait(d.device.now() + from_us(1e6));
    early = d.poll() < 16;
    d.drain();
  }
  CHECK(early);
}

TEST_CASE_TEMPLATE_DEFINE("D6: eviction takes the newest that have not started, and says how many",
                          Rig, device_eviction) {
  driven_device<Rig> d;
  CHECK(d.device.evict(d.lane[0]) == 0);
  for (std::size_t i = 0; i < 8; ++i) CHECK(d.submit(0, i, i + 8));
  for (std::size_t i = 0; i < 4; ++i) CHECK(d.submit(1, i, i + 8));
  d.device.wait(d.device.now() + from_us(30));
  d.poll();
  const std::size_t taken = d.device.evict(d.lane[0]);
  CHECK(taken < 8);
  d.submitted[0].resize(8 - taken);
  d.evicted += taken;
  CHECK(d.device.evict(d.lane[0]) == 0); // the rest has started
  CHECK(d.submit(0, 2, 4));              // and the lane continues
  d.drain();
  std::vector<segment_id> expected = d.submitted[0];
  expected.insert(expected.end(), d.submitted[1].begin(), d.submitted[1].end());
  std::vector<segment_id> ends = d.ends();
  std::sort(ends.begin(), ends.end());
  std::sort(expected.begin(), expected.end());
  CHECK(ends == expected);
}

/// For D7: an eighth of the SMs, or none if the device has too few.
template <class Rig>
std::optional<std::uint32_t> eighth_of(const typename Rig::device& d) {
  const std::uint32_t sms = d.limits().sms.count();
  return sms >= 64 ? std::optional(sms / 8) : std::nullopt;
}

TEST_CASE_TEMPLATE_DEFINE(
    "D7: a lane that leaves SMs runs elsewhere, and what it leaves is free for "
    "other lanes",
    Rig, device_partitions) {
  typename Rig::device device = Rig::make();
  const std::optional<std::uint32_t> eighth = eighth_of<Rig>(device);
  if (!eighth || !Rig::reports_blocks) return;
  const std::uint32_t sms = device.limits().sms.count();
  // Two blocks of 1024 threads fill an SM, so that `slow` fills every SM of its lane.
  const auto kernel = [](std::uint32_t blocks, double us) {
    operation op;
    op.launch.grid = {blocks, 1, 1};
    op.launch.block = {1024, 1, 1};
    op.launch.registers_per_thread = 32;
    op.expected = from_us(us);
    return op;
  };
  const lane_id some = device.open_lane({0, {}, false, sm_count{*eighth}});
  const lane_id more = device.open_lane({0, {}, false, sm_count{2 * *eighth}, from_us(1000)});
  const lane_id all = device.open_lane({});
  program slow("slow", {kernel(8 * sms, 5000)});
  program quick("quick", {kernel(2, 50)});
  device.load(slow);
  device.load(quick);
  std::uint64_t ids = 0;
  std::vector<device_event> ends;
  std::set<std::uint32_t> seen;
  const auto submit = [&](const program& p, lane_id lane, bool instrumented) {
    segment s;
    s.id = segment_id{ids++};
    s.lane = lane;
    s.instrumented = instrumented;
    s.program = p.id();
    s.operations = p.range(0, p.size());
    REQUIRE(!device.submit(s));
    return s.id;
  };
  const auto poll_for = [&](double us) {
    std::array<device_event, 16> out;
    for (const time_point until = device.now() + from_us(us); device.now() < until;) {
      device.wait(until);
      for (std::size_t n = device.poll(out); n > 0; n = device.poll(out))
        for (const device_event& e : std::span(out).first(n)) {
          if (e.what == device_event::kind::blocks_started) seen.insert(e.sm);
          if (e.what == device_event::kind::segment_done) ends.push_back(e);
        }
    }
  };
  for (const lane_id lane : {some, more}) {
    const std::uint32_t left = lane == some ? *eighth : 2 * *eighth;
    ends.clear();
    seen.clear();
    const segment_id filling = submit(slow, lane, true);
    poll_for(1500);
    for (int i = 0; i < 3; ++i) static_cast<void>(submit(quick, all, false));
    poll_for(100000);
    REQUIRE(ends.size() == 4);
    CHECK(ends.back().segment == filling); // the others used the SMs that it reserves
    CHECK(seen.size() <= sms - left);
    CHECK(seen.size() >= sms / 2);
  }
  // A program that the lane was not prepared for runs there too.
  ends.clear();
  static_cast<void>(submit(quick, more, false));
  poll_for(100000);
  CHECK(ends.size() == 1);
}

TEST_CASE_TEMPLATE_DEFINE("D7: no SM of a lane with its own SMs is one of a lane that leaves some",
                          Rig, device_partition_rules) {
  typename Rig::device device = Rig::make();
  CHECK_THROWS_WITH_AS(static_cast<void>(device.open_lane({0, sm_count{8}, false, sm_count{16}})),
                       "lane: sms 8 and reserved 16, expected one of the two at most", error);
  const std::optional<std::uint32_t> eighth = eighth_of<Rig>(device);
  if (!eighth || !Rig::reports_blocks) return;
  const sm_count left{2 * *eighth};
  CHECK_THROWS_AS(static_cast<void>(device.open_lane({0, {}, false, device.limits().sms})), error);
  static_cast<void>(device.open_lane({0, {}, false, left}));
  static_cast<void>(device.open_lane({0, sm_count{*eighth}})); // one of the reserved SMs
  static_cast<void>(device.open_lane({0, {}, false, left}));   // and such lanes share their SMs
  CHECK_THROWS_AS(static_cast<void>(device.open_lane({0, sm_count{2 * *eighth}})), error);
}

} // namespace gsched::testing

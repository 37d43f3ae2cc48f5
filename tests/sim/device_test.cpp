// SPDX-License-Identifier: Apache-2.0
#include "allocations.hpp"
#include <device/conformance.hpp>

#include <gsched/sim/device.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

using namespace gsched;
using namespace gsched::testing;

namespace {

struct sim_rig {
  using device = sim::device;
  static constexpr bool reports_blocks = true;
  static device make() { return device(sim::h200()); }
};
struct small_rig { // other queues, other costs, no laws
  using device = sim::device;
  static constexpr bool reports_blocks = true;
  static device make() {
    sim::preset p = sim::h200();
    p.hardware_queues = 1;
    p.sms = sm_count{3};
    p.resident_grids = 1;
    p.host = {};
    p.laws.contended = false;
    return device(p);
  }
};
using rigs = std::tuple<sim_rig, small_rig>;

operation kernel_of(std::uint32_t blocks, std::uint32_t threads, double us) {
  operation op;
  op.launch.grid = {blocks, 1, 1};
  op.launch.block = {threads, 1, 1};
  op.launch.registers_per_thread = 32;
  op.expected = from_us(us);
  return op;
}

segment whole(const program& p, lane_id lane, std::uint64_t id = 0) {
  segment s;
  s.id = segment_id{id};
  s.lane = lane;
  s.program = p.id();
  s.operations = p.range(0, p.size());
  return s;
}

/// When each operation started and ended, by segment.
struct history {
  struct line {
    time_point at{};
    std::uint64_t segment = 0;
    std::uint32_t operation = 0;
    std::uint32_t started = 0;
    bool operator==(const line&) const noexcept = default;
  };
  std::vector<line> lines;

  static void started(void* self, time_point at, const sim::operation_mark& m) noexcept {
    static_cast<history*>(self)->lines.push_back({at, index(m.segment), m.operation, 1});
  }
  static void ended(void* self, time_point at, const sim::operation_mark& m) noexcept {
    static_cast<history*>(self)->lines.push_back({at, index(m.segment), m.operation, 0});
  }
  sim::observer hook() { return {this, started, ended, nullptr}; }

  time_point when(std::uint64_t segment, std::uint32_t operation, bool start) const {
    for (const line& l : lines)
      if (l.segment == segment && l.operation == operation && (l.started == 1) == start)
        return l.at;
    FAIL("no operation " << operation << " of segment " << segment);
    return {};
  }
};

/// Runs the device and takes its events.
void run_for(sim::device& d, double us) {
  d.spend(from_us(us));
  std::array<device_event, 64> out;
  while (d.poll(out) > 0) {
  }
}

/// No host cost, no gaps, no laws: times are those of the kernels.
sim::preset bare() {
  sim::preset p = sim::h200();
  p.hardware_queues = 32;
  p.host = {};
  p.gaps = {};
  p.laws.graph = {1.0, duration::zero()};
  p.laws.contended = false;
  p.laws.slack = 0;
  return p;
}

} // namespace

TEST_CASE_TEMPLATE_APPLY(device_lane_order, rigs);
TEST_CASE_TEMPLATE_APPLY(device_completeness, rigs);
TEST_CASE_TEMPLATE_APPLY(device_block_order, rigs);
TEST_CASE_TEMPLATE_APPLY(device_time, rigs);
TEST_CASE_TEMPLATE_APPLY(device_eviction, rigs);
TEST_CASE_TEMPLATE_APPLY(device_partitions, rigs);
TEST_CASE_TEMPLATE_APPLY(device_partition_rules, rigs);

TEST_CASE("D5: no call allocates once programs are loaded") {
  driven_device<sim_rig> d(6);
  std::vector<operation> free_work = driven_device<sim_rig>::operations();
  std::vector<const operation*> pointers;
  for (const operation& op : free_work) pointers.push_back(&op);
  const std::size_t before = allocations();
  std::size_t polled = 0;
  for (std::uint64_t i = 0; i < 3000; ++i) {
    segment s;
    s.id = segment_id{i};
    s.lane = d.lane[i % 6];
    s.how = i % 5 == 0 ? submission::launches : submission::graph;
    s.instrumented = i % 7 == 0;
    if (i % 3 != 0) s.program = d.work.id();
    s.operations = i % 3 != 0 ? d.work.range(0, 6) : std::span<const operation* const>(pointers);
    REQUIRE(!d.device.submit(s));
    if (i % 11 == 0) polled += d.device.evict(d.lane[(i + 3) % 6]);
    std::array<device_event, 64> out;
    d.device.wait(d.device.now() + from_us(20));
    for (std::size_t n = d.device.poll(out); n > 0; n = d.device.poll(out))
      for (std::size_t k = 0; k < n; ++k) polled += out[k].what == device_event::kind::segment_done;
  }
  CHECK(allocations() == before);
  CHECK(polled > 1000);
}

TEST_CASE("equal calls give equal times, contention and all") {
  const auto run = [] {
    history l;
    sim::device d(sim::h200(), {}, l.hook());
    std::vector<lane_id> lanes;
    for (int i = 0; i < 5; ++i) lanes.push_back(d.open_lane({i % 2, sm_count{}}));
    program p("p", driven_device<sim_rig>::operations());
    d.load(p);
    for (std::uint64_t i = 0; i < 40; ++i) {
      REQUIRE(!d.submit(whole(p, lanes[i % 5], i)));
      if (i % 3 == 0) d.wait(d.now() + from_us(37));
    }
    std::array<device_event, 64> out;
    for (std::size_t left = 40; left > 0; left -= d.poll(out)) d.wait(no_deadline);
    l.lines.push_back({d.now(), 0, 0, 0});
    return l.lines;
  };
  const std::vector<history::line> once = run();
  CHECK(once.size() == 40 * 24 * 2 + 1);
  CHECK(once == run());
}

TEST_CASE("submit refuses in one code and changes nothing") {
  sim::device d(sim::h200(), {2, 100});
  const lane_id lane = d.open_lane({});
  program p("p", {kernel_of(40, 64, 5)});
  d.load(p);
  segment s = whole(p, lane);
  s.lane = lane_id{7};
  CHECK(d.submit(s) == make_error_code(errc::bad_option));
  s = whole(p, lane);
  s.operations = {};
  CHECK(d.submit(s) == make_error_code(errc::bad_option));
  s = whole(p, lane);
  s.first = 1;
  CHECK(d.submit(s) == make_error_code(errc::bad_option));
  s = whole(p, lane);
  s.program = program_id{1};
  CHECK(d.submit(s) == make_error_code(errc::bad_option));

  operation host;
  host.kind = operation_kind::host_function;
  operation huge = kernel_of(1, 1024, 1);
  huge.launch.registers_per_thread = 255;
  const operation* pointer = &host;
  s.program = no_program;
  s.operations = {&pointer, 1};
  CHECK(d.submit(s) == make_error_code(errc::bad_option));
  pointer = &huge;
  CHECK(d.submit(s) == make_error_code(errc::does_not_fit));

  s = whole(p, lane);
  s.instrumented = true; // 80 of 100 events
  CHECK(d.now() == time_point{});
  CHECK(!d.submit(s));
  CHECK(d.submit(s) == make_error_code(errc::too_small));
  s.instrumented = false;
  CHECK(!d.submit(s));
  const time_point now = d.now();
  CHECK(d.submit(s) == make_error_code(errc::too_small));
  CHECK(d.now() == now);
  d.wait(now + from_us(1000));
  CHECK(d.submit(s) == make_error_code(errc::too_small)); // ended, but not polled
  std::array<device_event, 200> out;
  std::size_t n = 0;
  for (std::size_t k = 1; k > 0; n += k) {
    d.wait(d.now() + from_us(1000));
    k = d.poll(out);
  }
  CHECK(n == 2 + 2 * 40);
  s.instrumented = true;
  CHECK(!d.submit(s)); // all capacity is free again
}

TEST_CASE("set-up refuses what cannot be, in one line") {
  sim::preset p = sim::h200();
  p.max_lanes = 20;
  sim::device d(p);
  operation huge = kernel_of(1, 1024, 1);
  huge.launch.registers_per_thread = 255;
  program bad("bad", {kernel_of(1, 32, 1), huge});
  CHECK_THROWS_WITH_AS(d.load(bad), doctest::Contains("bad: operation 1: "), error);
  CHECK_THROWS_WITH_AS(d.open_lane({0, sm_count{133}}), doctest::Contains("133 SMs, expected"),
                       error);
  for (int i = 0; i < 20; ++i) static_cast<void>(d.open_lane({}));
  CHECK_THROWS_WITH_AS(d.open_lane({}), doctest::Contains("expected at most 20"), error);
  CHECK_THROWS_WITH_AS(static_cast<void>(sim::preset_by_name("sim:h100")),
                       doctest::Contains("expected sim:h200"), error);
  p.host.block_notification = p.host.segment_notification + from_us(1);
  CHECK_THROWS_WITH_AS(sim::device{p}, doctest::Contains("block_notification"), error);
}

TEST_CASE("partitions are disjoint, in groups, and the last group is odd") {
  sim::device d(sim::h200());
  CHECK(d.sms_of(d.open_lane({0, sm_count{36}})).count() == 36); // three groups of 8 and the 12
  CHECK(d.sms_of(d.open_lane({0, sm_count{90}})).count() == 96);
  CHECK_THROWS_AS(d.open_lane({0, sm_count{8}}), error);
  CHECK(d.sms_of(d.open_lane({})).count() == 132);
  sim::device e(sim::h200());
  CHECK(e.sms_of(e.open_lane({0, sm_count{128}})).count() == 132);
}

TEST_CASE("lanes that leave SMs leave the same ones, and share the rest") {
  const auto reserving = [](std::uint32_t n) { return lane_options{0, {}, false, sm_count{n}}; };
  sim::device d(sim::h200());
  CHECK(d.sms_of(d.open_lane(reserving(8))).count() == 124);
  CHECK(d.sms_of(d.open_lane(reserving(12))).count() == 116); // whole groups of 8 are reserved
  CHECK(d.sms_of(d.open_lane(reserving(48))).count() == 84);
  CHECK(d.sms_of(d.open_lane(reserving(8))).count() == 124);
  CHECK(d.sms_of(d.open_lane({0, sm_count{8}})).count() == 8); // the one group that all reserve
  CHECK_THROWS_WITH_AS(d.open_lane({0, sm_count{8}}), doctest::Contains("left of 132"), error);
  CHECK_THROWS_WITH_AS(d.open_lane(reserving(125)),
                       "partition that leaves 125 SMs, expected some of 132 in groups of 8 to "
                       "remain for it",
                       error);
  sim::device e(sim::h200());
  CHECK(e.sms_of(e.open_lane({0, sm_count{16}})).count() == 16);
  CHECK(e.sms_of(e.open_lane({0, sm_count{12}})).count() == 12); // the last group
  CHECK(e.sms_of(e.open_lane(reserving(8))).count() == 104);     // all but those
  CHECK(e.sms_of(e.open_lane(reserving(24))).count() == 96);
}

TEST_CASE("a lane that leaves SMs yields as others do, and nothing of it runs on what it leaves") {
  sim::preset p = bare();
  p.yields = {1, {}, {}, {}, {}, {}, {}, {}};
  sim::device d(p);
  const lane_id low = d.open_lane({0, {}, true, sm_count{16}});
  const lane_id high = d.open_lane({1, {}});
  program be("be", std::vector<operation>(4, kernel_of(132 * 2, 1024, 500)));
  program rt("rt", {kernel_of(16 * 2, 1024, 20)});
  d.load(be);
  d.load(rt);
  segment s = whole(be, low, 0);
  s.instrumented = true;
  CHECK(!d.submit(s));
  d.wait(d.now() + from_us(100));
  d.yield(low);
  CHECK(!d.submit(whole(rt, high, 1)));
  std::array<device_event, 16> out;
  std::vector<device_event::kind> told;
  const auto hear = [&] {
    for (std::size_t n = d.poll(out); n > 0; n = d.poll(out))
      for (const device_event& e : std::span(out).first(n)) {
        const bool blocks = e.what == device_event::kind::blocks_started ||
                            e.what == device_event::kind::blocks_done;
        if (blocks && e.segment == segment_id{0}) CHECK(e.sm >= 16);
        if (!blocks) told.push_back(e.what);
      }
  };
  while (d.now() < time_point{from_us(5000)}) {
    d.wait(time_point{from_us(5000)});
    hear();
  }
  // The real-time kernel ends before the running one; after that the lane has yielded.
  CHECK(told == std::vector{device_event::kind::segment_done, device_event::kind::lane_yielded});
  d.resume(low);
  while (told.size() < 4 && d.now() < time_point{from_us(20000)}) {
    d.wait(time_point{from_us(20000)});
    hear();
  }
  CHECK(told.back() == device_event::kind::segment_done);
}

TEST_CASE("a partition's kernels stay on its SMs and hold nobody else up") {
  history l;
  sim::device d(bare(), {}, l.hook());
  const lane_id left = d.open_lane({0, sm_count{64}});
  const lane_id right = d.open_lane({0, sm_count{68}});
  operation wide = kernel_of(64 * 2 * 10, 1024, 0);
  wide.by_sms = {{sm_count{64}, from_us(100)}};
  wide.expected = from_us(50);
  program big("big", {wide, wide});
  operation narrow = kernel_of(68, 1024, 10);
  narrow.by_sms = {{sm_count{68}, from_us(10)}};
  program small("small", {narrow});
  d.load(big);
  d.load(small);
  segment s = whole(big, left, 0);
  s.instrumented = true;
  CHECK(!d.submit(s));
  CHECK(!d.submit(whole(small, right, 1)));
  d.wait(no_deadline);
  std::array<device_event, 16> out;
  bool end = false;
  while (!end) {
    d.wait(no_deadline);
    const std::size_t n = d.poll(out);
    for (std::size_t i = 0; i < n; ++i) {
      if (index(out[i].segment) != 0) continue;
      end = out[i].what == device_event::kind::segment_done;
      if (!end) CHECK(out[i].sm < 64);
    }
  }
  CHECK(l.when(1, 0, true) == time_point{});
  CHECK(l.when(1, 0, false) == time_point{from_us(10)});
  CHECK(l.when(0, 1, false) == time_point{from_us(200)});
}

TEST_CASE("a queue blocks behind its head, and no further than it must") {
  history l;
  sim::preset p = bare();
  p.hardware_queues = 2;
  sim::device d(p, {}, l.hook());
  std::vector<lane_id> lanes;
  for (int i = 0; i < 4; ++i) lanes.push_back(d.open_lane({}));
  program pair("pair", {kernel_of(1, 32, 10), kernel_of(1, 32, 10)});
  d.load(pair);
  for (std::uint64_t i = 0; i < 4; ++i) CHECK(!d.submit(whole(pair, lanes[i], i)));
  run_for(d, 1000);
  const auto us = [](double t) { return time_point{from_us(t)}; };
  CHECK(l.when(0, 0, true) == us(0));
  CHECK(l.when(1, 0, true) == us(0));
  CHECK(l.when(0, 1, true) == us(10));
  CHECK(l.when(2, 0, true) == us(10)); // queue of lane 0: behind its second kernel's start
  CHECK(l.when(3, 1, true) == us(20));
}

TEST_CASE("a higher priority goes first where room comes free, and takes none away") {
  history l;
  sim::device d(bare(), {}, l.hook());
  const lane_id low = d.open_lane({0, sm_count{}});
  const lane_id other = d.open_lane({0, sm_count{}});
  const lane_id high = d.open_lane({5, sm_count{}});
  program full("full", {kernel_of(132 * 2, 1024, 10)}); // all SMs
  d.load(full);
  CHECK(!d.submit(whole(full, low, 0)));
  d.spend(from_us(1));
  CHECK(!d.submit(whole(full, other, 1)));
  d.spend(from_us(1));
  CHECK(!d.submit(whole(full, high, 2)));
  run_for(d, 100);
  CHECK(l.when(0, 0, false) == time_point{from_us(10)});
  CHECK(l.when(2, 0, true) == time_point{from_us(10)});
  CHECK(l.when(1, 0, true) == time_point{from_us(20)});
}

TEST_CASE("copies take turns on their engine and run beside kernels") {
  history l;
  sim::device d(bare(), {}, l.hook());
  const lane_id a = d.open_lane({});
  const lane_id b = d.open_lane({});
  const lane_id c = d.open_lane({});
  operation in;
  in.kind = operation_kind::memcpy;
  in.expected = from_us(10);
  operation out = in;
  out.direction = copy_direction::device_to_host;
  program up("up", {in}), down("down", {out});
  d.load(up);
  d.load(down);
  CHECK(!d.submit(whole(up, a, 0)));
  CHECK(!d.submit(whole(up, b, 1)));
  CHECK(!d.submit(whole(down, c, 2)));
  run_for(d, 100);
  CHECK(l.when(0, 0, true) == time_point{});
  CHECK(l.when(1, 0, true) == time_point{from_us(10)});
  CHECK(l.when(2, 0, true) == time_point{});
  CHECK(d.busy_time() == duration::zero()); // no kernel ran
}

TEST_CASE("the host pays for what it does, and busy time and occupancy add up") {
  sim::preset p = bare();
  p.host = sim::h200().host;
  sim::device d(p);
  const lane_id lane = d.open_lane({});
  program one("one", {kernel_of(66, 1024, 100)}); // half of the SMs
  d.load(one);
  segment s = whole(one, lane);
  s.how = submission::launches;
  CHECK(!d.submit(s));
  CHECK(d.now() == time_point{p.host.launch});
  d.spend(from_us(3));
  CHECK(d.now() == time_point{p.host.launch + from_us(3)});
  d.wait(no_deadline);
  CHECK(d.now() == time_point{p.host.start + from_us(100) + p.host.segment_notification});
  std::array<device_event, 4> out;
  const time_point before = d.now();
  CHECK(d.poll(out) == 1);
  CHECK(d.now() == before + p.host.poll + p.host.take);
  d.wait(time_point{from_us(1000)});
  CHECK(d.busy_time() == from_us(100));
  CHECK(d.mean_occupied() == doctest::Approx(0.05));
}

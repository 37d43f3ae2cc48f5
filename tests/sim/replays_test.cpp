// SPDX-License-Identifier: Apache-2.0
#include <gsched/job/program.hpp>
#include <gsched/sim/device.hpp>
#include <gsched/sim/preset.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <utility>
#include <vector>

namespace {

using namespace gsched;

std::vector<operation> random_chain(std::mt19937_64& random) {
  const auto pick = [&](std::uint32_t least, std::uint32_t most) {
    return least + static_cast<std::uint32_t>(random() % (most - least + 1));
  };
  std::vector<operation> work(pick(1, 20));
  for (operation& op : work) {
    op.expected = from_us(0.001 * pick(1000, 300000));
    op.launch.grid = {pick(1, 3000), 1, 1};
    op.launch.block = {32 * pick(2, 32), 1, 1};
    if (pick(0, 9) > 0) continue;
    op.kind = operation_kind::memset;
    op.bytes = byte_count{pick(1, 1000)};
    op.expected = from_us(1);
  }
  work.front().kind = operation_kind::kernel;
  return work;
}

/// From the start of the first operation to the end of the last, alone on so many SMs.
double us_alone(std::vector<operation> work, std::vector<scaling_point> replays, sm_count sms) {
  struct journal {
    std::size_t last = 0;
    time_point start{}, end{};
    static void started(void* self, time_point at, const sim::operation_mark& m) noexcept {
      if (m.operation == 0) static_cast<journal*>(self)->start = at;
    }
    static void ended(void* self, time_point at, const sim::operation_mark& m) noexcept {
      journal& j = *static_cast<journal*>(self);
      if (m.operation == j.last) j.end = at;
    }
  } seen{work.size() - 1};
  program p("chain", std::move(work));
  p.set_replays(std::move(replays));
  sim::device d(sim::h200(), {}, {&seen, &journal::started, &journal::ended, nullptr});
  lane_options how;
  how.sms = sms;
  segment s;
  s.lane = d.open_lane(how);
  d.load(p);
  s.program = p.id();
  s.operations = p.range(0, p.size());
  REQUIRE_FALSE(d.submit(s));
  std::array<device_event, 1> events;
  while (d.poll(events) == 0) d.wait(no_deadline);
  return to_us(seen.end - seen.start);
}

constexpr sm_count on_all{}, on_few{32}, on_half{64}, between_them{48};

} // namespace

TEST_CASE("replays: a program takes alone what was measured, on as many SMs") {
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> factor(0.5, 1.5);
  for (int i = 0; i < 50; ++i) {
    CAPTURE(i);
    const std::vector<operation> work = random_chain(random);
    const double law = us_alone(work, {}, on_all);
    const double whole = law * factor(random) + 10;
    const double half = whole * (1 + factor(random)), few = half * (1 + factor(random));
    const std::vector<scaling_point> measured{
        {on_few, from_us(few)}, {on_half, from_us(half)}, {sm_count{132}, from_us(whole)}};
    constexpr double off = 0.1; // each wave ends at a whole nanosecond
    CHECK(std::abs(us_alone(work, measured, on_all) - whole) <= off);
    CHECK(std::abs(us_alone(work, measured, on_half) - half) <= off);
    CHECK(std::abs(us_alone(work, measured, on_few) - few) <= off);
    const double between = us_alone(work, measured, between_them);
    CHECK(between >= half * 0.7);
    CHECK(between <= few * 1.3);
  }
}

TEST_CASE(
    "replays: what a graph takes beyond its kernels is gaps, and branches at once make it faster") {
  operation op;
  op.launch.grid = {132, 1, 1};
  op.launch.block = {256, 1, 1};
  op.expected = from_us(10);
  const std::vector<operation> work(11, op);
  const double scale = sim::h200().laws.graph.scale;
  const auto replay = [](double us) {
    return std::vector<scaling_point>{{sm_count{132}, from_us(us)}};
  };
  // A part of the program has its part of the gaps.
  const auto part = [&](double us) {
    program p("chain", work);
    p.set_replays(replay(us));
    sim::device d(sim::h200());
    segment s;
    s.lane = d.open_lane({});
    d.load(p);
    s.program = p.id();
    s.operations = p.range(0, 2);
    const time_point begun = d.now();
    REQUIRE_FALSE(d.submit(s));
    std::array<device_event, 1> events;
    while (d.poll(events) == 0) d.wait(no_deadline);
    return to_us(d.now() - begun);
  };
  const double no_gap = part(110 * scale);
  CHECK(part(110 * scale + 10 * 3) - no_gap == doctest::Approx(3).epsilon(0.01));
  CHECK(part(55 * scale) - no_gap == doctest::Approx(-10 * scale).epsilon(0.01));
  CHECK(us_alone(work, replay(40), on_all) == doctest::Approx(40).epsilon(0.001));
}

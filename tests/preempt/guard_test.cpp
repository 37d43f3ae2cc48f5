// SPDX-License-Identifier: Apache-2.0
#include <gsched/preempt/floor.hpp>
#include <gsched/preempt/guard.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

using namespace gsched;

TEST_CASE("guard: whatever happens when, each lane yields and resumes in turn, and is not lost") {
  for (const bool yields : {true, false}) {
    constexpr std::uint32_t lanes = 4;
    guard g(lanes, yields);
    preemption_statistics s;
    std::mt19937_64 random(5);
    std::array<int, lanes> told{}; // 0 on, 1 asked, 2 has yielded
    std::array<bool, lanes> busy{};
    bool held = false;
    time_point now{};
    const auto is_busy = [&](std::uint32_t i) { return busy[i]; };
    const auto yield = [&](std::uint32_t i) {
      REQUIRE(told[i] == 0);
      REQUIRE(busy[i]);
      told[i] = 1;
    };
    const auto resume = [&](std::uint32_t i) {
      REQUIRE(told[i] == 2);
      told[i] = 0;
    };
    std::uint64_t times = 0;
    for (int step = 0; step < 100000; ++step) {
      now += duration{static_cast<duration::rep>(random() % 1000)};
      const auto lane = static_cast<std::uint32_t>(random() % lanes);
      switch (random() % 6) {
      case 0:
        if (!held) g.hold(now, is_busy, yield, s);
        held = true;
        break;
      case 1:
        if (held) g.release(now, is_busy, resume, s);
        held = false;
        break;
      case 2:
        if (g.open()) busy[lane] = !busy[lane];
        break;
      case 3: g.resumed(lane, now, s); break;
      default:
        if (yields && told[lane] == 1) {
          told[lane] = 2;
          REQUIRE(g.may_run(lane));
          REQUIRE(g.yielded(lane, now, is_busy, resume, s));
          REQUIRE(g.may_run(lane) == !held);
          ++times;
        } else if (yields || !g.is_yielding(lane)) {
          REQUIRE_FALSE(g.yielded(lane, now, is_busy, resume, s));
        } else {
          busy[lane] = false;
          REQUIRE(g.yielded(lane, now, is_busy, resume, s));
        }
      }
      bool all_on = true;
      for (std::uint32_t i = 0; i < lanes; ++i) {
        if (yields) all_on &= told[i] == 0;
        if (yields) REQUIRE(g.is_yielding(i) == (told[i] == 1));
        if (!held) REQUIRE(told[i] != 2); // released as soon as it has yielded
      }
      REQUIRE(g.holds() == held);
      if (yields) REQUIRE(g.open() == (!held && all_on));
    }
    CHECK(s.preemptions.count > 1000);
    if (yields) {
      CHECK(times > 10000);
      CHECK(s.preemptions.count - s.preemptions.latency.count() <= 1); // one may be under way
      CHECK(s.restores.latency.count() > 1000);
    }
  }
}

TEST_CASE("floor: the part of the time is kept, however irregular the calls") {
  for (const double floor : {0.01, 0.2, 0.5, 0.95}) {
    CAPTURE(floor);
    floor_clock f(floor, from_us(1000));
    std::mt19937_64 random(7);
    time_point now{};
    duration on{};
    duration longest{};
    duration off{};
    for (int i = 0; i < 200000; ++i) {
      const duration passed{static_cast<duration::rep>(random() % 40000)};
      const bool was = f.lets_on();
      now += passed;
      f.pass(now, true, was);
      if (was) on += passed;
      off = was ? duration::zero() : off + passed;
      longest = std::max(longest, off);
    }
    CHECK(std::abs(to_us(on) / to_us(now.time_since_epoch()) - floor) < 0.01);
    CHECK(longest < from_us(1200 + 40 / floor)); // a late release is compensated
  }
}

TEST_CASE("floor: nothing is owed for time in which nobody wanted it, and without a floor never") {
  floor_clock f(0.1, from_us(1000));
  f.pass(time_point{from_us(5000)}, false, true);
  CHECK_FALSE(f.lets_on());
  f.pass(time_point{from_us(5890)}, true, false);
  CHECK_FALSE(f.lets_on());
  f.pass(time_point{from_us(5910)}, true, false);
  CHECK(f.lets_on());
  f.pass(time_point{from_us(7000)}, false, true); // best-effort jobs had the device for a while
  CHECK_FALSE(f.lets_on());
  floor_clock never(0, from_us(1000));
  never.pass(time_point{from_us(1e9)}, true, false);
  CHECK_FALSE(never.lets_on());
}

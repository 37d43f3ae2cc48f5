// SPDX-License-Identifier: Apache-2.0
//
// Many yields at random instants, on several lanes at once.
#include "sanitized.hpp"

#include <sim/memory_image.hpp>
#include <sim/preemption_driver.hpp>

#include <gsched/sim/device.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <random>
#include <tuple>
#include <vector>

namespace gsched::testing {
namespace {

constexpr std::size_t words = 64;

duration up_to(std::mt19937_64& random, double us) {
  return duration{static_cast<duration::rep>(random() % static_cast<std::uint64_t>(us * 1000))};
}

/// The program on one lane, and when it runs.
struct marks {
  image_writer images;
  std::uint32_t lane = 0;
  std::vector<std::tuple<time_point, std::uint32_t, bool>> seen;

  static void started(void* self, time_point at, const sim::operation_mark& m) noexcept {
    static_cast<marks*>(self)->note(at, m, true);
  }
  static void ended(void* self, time_point at, const sim::operation_mark& m) noexcept {
    static_cast<marks*>(self)->note(at, m, false);
  }
  void note(time_point at, const sim::operation_mark& m, bool start) {
    if (index(m.lane) == lane) seen.emplace_back(at, index(m.work->kernel), start);
  }
};

} // namespace

TEST_CASE("a million yields at random lose nothing and run nothing twice") {
  constexpr std::uint64_t yields = testing::sanitized ? 30'000 : 1'000'000;
  constexpr std::size_t lanes = 4;
  std::mt19937_64 random(7);
  sim::preset preset = sim::h200();
  preset.sms = sm_count{12};
  image_writer w;
  sim::device d(preset, {64, 16}, w.hook());
  preemption_driver drive(d, 11);
  std::deque<program> programs;
  std::vector<memory_image> expected;
  std::vector<std::uint64_t> passes(lanes);
  for (std::size_t i = 0; i < lanes; ++i) {
    d.load(programs.emplace_back("p", random_program(random, 6 + i, i % 2 == 0)));
    w.images.emplace_back(words);
    drive.add(programs.back(), {static_cast<int>(i % 2), {}, i != 3});
  }
  expected = w.images;
  while (drive.yielded < yields) {
    w.times.clear();
    for (std::size_t i = 0; i < lanes; ++i) {
      preemption_driver::job& j = drive.jobs[i];
      if (drive.done(j)) {
        expected[i] = run_alone(programs[i].operations(), expected[i]);
        REQUIRE(w.images[i] == expected[i]);
        ++passes[i];
        j.next = 0;
      }
      if (!j.yields) continue;
      if (!j.told && random() % 2 == 0) drive.yield(i);
      if (j.yielded && random() % 2 == 0) drive.resume(i);
    }
    drive.step(d.now() + up_to(random, 12));
  }
  for (std::size_t i = 0; i < lanes; ++i) {
    if (drive.jobs[i].told) {
      REQUIRE(drive.wait_yielded(i));
      drive.resume(i);
    }
    REQUIRE(drive.finish(i));
    CHECK(w.images[i] == run_alone(programs[i].operations(), expected[i]));
    CHECK(passes[i] > yields / 1000);
  }
  CHECK(drive.wrong == 0);
  CHECK(d.rerun_blocks() == 0);
  CHECK(drive.jobs[0].preempted > yields / 10);
  CHECK(drive.jobs[1].stayed > yields / 100);
  CHECK(drive.jobs[3].preempted == 0);
  const std::uint64_t preempted =
      drive.jobs[0].preempted + drive.jobs[1].preempted + drive.jobs[2].preempted;
  MESSAGE(preempted << " segments preempted, " << d.restarted_blocks() << " blocks restarted, "
                    << passes[0] << " passes of the first");
}

TEST_CASE("a lane on SMs of its own does not tell whether others yield") {
  const auto run = [](std::uint64_t storm) {
    sim::preset preset = sim::h200();
    preset.laws.contended = false;
    std::mt19937_64 random(3);
    marks m;
    m.lane = 3;
    sim::device d(preset, {}, {&m, marks::started, marks::ended, nullptr, nullptr});
    preemption_driver drive(d, 1);
    std::deque<program> programs;
    for (std::size_t i = 0; i < 4; ++i) {
      const std::size_t size = i == 3 ? 2000 : 12;
      std::vector<operation> work = random_program(random, size, i == 1);
      for (operation& op : work) op.kind = operation_kind::kernel; // copy engines are shared
      d.load(programs.emplace_back("p", work));
      drive.add(programs.back(), {0, sm_count{8}, i != 3});
    }
    segment s;
    s.id = segment_id{1'000'000};
    s.lane = drive.jobs[3].lane;
    s.program = programs[3].id();
    s.operations = programs[3].range(0, 2000);
    REQUIRE(!d.submit(s)); // immediately: the host has one thread
    drive.jobs[3].next = 2000;
    if (storm == 0) {
      d.wait(no_deadline);
      return m.seen;
    }
    random.seed(storm);
    drive.jobs[3].flying.push_back({s.id, 0});
    std::uint64_t yields = 0;
    while (!drive.done(drive.jobs[3])) {
      for (std::size_t i = 0; i < 3; ++i) {
        if (drive.done(drive.jobs[i])) drive.jobs[i].next = 0;
        if (!drive.jobs[i].told && random() % 4 == 0) {
          drive.yield(i);
          ++yields;
        }
        if (drive.jobs[i].yielded) drive.resume(i);
      }
      drive.step(d.now() + up_to(random, 50));
    }
    CHECK(yields > 500);
    CHECK(drive.wrong == 0);
    return m.seen;
  };
  const auto alone = run(0);
  CHECK(alone.size() == 4000);
  for (std::uint64_t storm = 1; storm <= 5; ++storm) CHECK(run(storm) == alone);
}

} // namespace gsched::testing

// SPDX-License-Identifier: Apache-2.0
#include <gsched/preempt/colocate/exploration.hpp>
#include <gsched/preempt/colocate/side_speed.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>

using namespace gsched;

namespace {

struct choice_law {
  double slow_down = 0;
  double speed = 0; ///< of what runs beside
};

/// Real-time jobs of 1 ms, one after another.
struct world {
  std::array<choice_law, 4> laws;
  double noise = 0;  ///< the times of jobs vary by this fraction
  double load = 0.5; ///< fraction of the time with real-time jobs
  double waits = 0;  ///< waiting of a job for others, in its own time
  bool others = true;
  std::mt19937_64 random{1};
  std::array<std::uint64_t, 4> used{};

  exploration with(std::size_t choices, double tolerance = 0.05) const {
    exploration e(choices, tolerance);
    for (std::size_t i = 1; i < choices; ++i) e.may_reach(i, laws[i].speed);
    return e;
  }

  void run(exploration& e, int jobs) {
    for (int i = 0; i < jobs; ++i) {
      const std::size_t c = e.current();
      const std::uint64_t began = e.epoch();
      const double drawn = static_cast<double>(random() >> 11) * 0x1p-53 * 2 - 1;
      const double us = 1000 * (1 + laws[c].slow_down) * (1 + noise * drawn);
      ++used[c];
      e.passed(from_us(us), true, others);
      e.passed(from_us(us * (1 - load) / load), false, false);
      e.did(0, from_us(us * (1 - load) / load), duration::zero());
      if (c != 0) e.did(c, from_us(us * laws[c].speed), from_us(us));
      e.ended(began, {from_us(1000), from_us(us), from_us(us * (1 + waits))});
    }
  }
};

} // namespace

TEST_CASE("exploration: of what is tolerated, the choice with the most work stays") {
  for (const double noise : {0.0, 0.02}) {
    CAPTURE(noise);
    world w{{{{0, 0}, {0.01, 0.1}, {0.02, 0.3}, {0.2, 0.9}}}, noise};
    exploration e = w.with(4);
    w.run(e, 20000);
    CHECK(w.used[3] <= 4);
    w.used = {};
    w.run(e, 20000);
    CHECK(w.used[2] > 19000);
  }
}

TEST_CASE("exploration: what hurts, or gains nothing, is paid for with few jobs") {
  for (const double noise : {0.0, 0.02, 0.2}) {
    CAPTURE(noise);
    world hurts{{{{0, 0}, {0.15, 0.1}, {0.3, 0.5}, {0.5, 0.9}}}, noise};
    exploration e = hurts.with(4);
    hurts.run(e, 20000);
    CHECK(hurts.used[0] > 20000 - 20000 / exploration::jobs_a_trial);
    CHECK(hurts.used[1] > 0); // it was tried
    if (noise < 0.1) CHECK(hurts.used[0] > 20000 - 50);
    // The loss is almost the gain: if jobs vary much, the choice may remain for a while by chance,
    // without harm.
    world idle{{{{0, 0}, {0.04, 0.04}, {0.02, 0.03}}}, noise};
    exploration f = idle.with(3);
    idle.run(f, 20000);
    CHECK(idle.used[0] >= (noise < 0.1 ? 20000 - 20000 / exploration::jobs_a_trial : 17000));
  }
}

TEST_CASE("exploration: nothing is tried that cannot gain") {
  world full{{{{0, 0}, {0, 0.5}}}};
  full.others = false; // no best-effort job waits
  exploration e = full.with(2);
  full.run(e, 5000);
  CHECK(e.trials() == 0);
  world rare{{{{0, 0}, {0, 0.5}}}};
  rare.load = 0.015;
  exploration f = rare.with(2);
  rare.run(f, 5000);
  CHECK(f.trials() == 0);
  rare.load = 0.5;
  rare.run(f, 5000);
  CHECK(f.current() == 1);
}

TEST_CASE("exploration: never more than one job in a hundred, and none of the first") {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    CAPTURE(seed);
    world w{{{{0, 0}, {0.1, 0.06}, {0.06, 0.1}, {0.3, 0.3}}}, 0.15};
    w.random.seed(seed);
    exploration e = w.with(4);
    for (std::uint64_t jobs = 1; jobs <= 3000; ++jobs) {
      w.run(e, 1);
      REQUIRE(e.trials() * exploration::jobs_a_trial <= jobs);
      if (jobs < exploration::first_jobs) REQUIRE(e.current() == 0);
    }
  }
}

TEST_CASE("exploration: jobs that wait for one another tolerate less") {
  for (const double waits : {0.0, 1.0}) {
    CAPTURE(waits);
    world w{{{{0, 0}, {0.04, 0.4}}}};
    w.waits = waits; // a latency then grows by 1 + 0.5 / (1 - 0.5), twice the slow-down
    exploration e = w.with(2);
    w.run(e, 5000);
    CHECK(e.amplified() == doctest::Approx(waits > 0 ? 2 : 1));
    CHECK(e.current() == (waits > 0 ? 0 : 1));
  }
}

TEST_CASE("exploration: a choice that begins to hurt is left within a few jobs, and found again") {
  world w{{{{0, 0}, {0, 0.5}}}, 0.01};
  exploration e = w.with(2);
  w.run(e, 2000);
  CHECK(e.current() == 1);
  w.laws[1].slow_down = 0.5;
  int jobs = 0;
  for (; e.current() == 1 && jobs < 100; ++jobs) w.run(e, 1);
  CHECK(jobs <= 20);
  w.laws[1].slow_down = 0;
  w.used = {};
  w.run(e, 10000);
  CHECK(w.used[1] > 5000);
}

TEST_CASE("exploration: with nothing to choose, nothing is measured") {
  exploration e;
  for (int i = 0; i < 1000; ++i) e.ended(e.epoch(), {from_us(5), from_us(5), from_us(5)});
  CHECK(e.current() == 0);
  CHECK(e.trials() == 0);
}

TEST_CASE("side speed: measured sizes, lines between them, and shares of SMs beyond") {
  operation op;
  op.kind = operation_kind::kernel;
  op.expected = from_us(10);
  const sm_count all{128};
  CHECK(ns_on(op, sm_count{128}, all) == doctest::Approx(10000));
  CHECK(ns_on(op, sm_count{16}, all) == doctest::Approx(80000));
  op.by_sms.push_back({sm_count{8}, from_us(90)});
  op.by_sms.push_back({sm_count{32}, from_us(30)});
  CHECK(ns_on(op, sm_count{8}, all) == doctest::Approx(90000));
  CHECK(ns_on(op, sm_count{32}, all) == doctest::Approx(30000));
  CHECK(ns_on(op, sm_count{16}, all) == doctest::Approx(std::sqrt(90.0 * 30) * 1000));
  CHECK(ns_on(op, sm_count{4}, all) == doctest::Approx(180000));
  op.kind = operation_kind::memcpy;
  CHECK(ns_on(op, sm_count{8}, all) == doctest::Approx(10000));
}

TEST_CASE("exploration: what is presumed to gain comes first, and stays until it is seen to lose") {
  for (const double noise : {0.0, 0.02}) {
    CAPTURE(noise);
    // Less than the possible gain of others, and more than its cost.
    world little{{{{0, 0}, {0.01, 0.02}, {0.3, 0.9}}}, noise};
    exploration e = little.with(3);
    e.presume(1);
    little.run(e, exploration::first_jobs);
    CHECK(little.used[1] == 0);
    little.used = {};
    little.run(e, 500);
    CHECK(little.used[1] > 450);
    // Unless another choice is clearly better.
    world better{{{{0, 0}, {0.01, 0.02}, {0.02, 0.4}}}, noise};
    exploration f = better.with(3);
    f.presume(1);
    better.run(f, 20000);
    CHECK(f.current() == 2);
    // A choice that loses, or takes too long, is given up after few jobs, and tried again at
    // growing intervals.
    for (const choice_law bad : {choice_law{0.03, 0.01}, choice_law{0.2, 0.9}}) {
      world loses{{{{0, 0}, bad, {0.3, 0.9}}}, noise};
      exploration g = loses.with(3);
      g.presume(1);
      loses.run(g, 20000);
      CHECK(loses.used[1] > 0);
      CHECK(loses.used[1] < 200);
    }
  }
}

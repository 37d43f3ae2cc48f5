// SPDX-License-Identifier: Apache-2.0
#include <gsched/pad/exploration.hpp>

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
  double gain = 0;
};

struct world {
  std::array<choice_law, 4> laws;
  double noise = 0; ///< jobs' times differ by this part, up or down
  std::mt19937_64 random{1};
  std::array<std::uint64_t, 4> used{};
  double slower = 0;

  void run(exploration& e, solo_time& alone, int jobs) {
    for (int i = 0; i < jobs; ++i) {
      const std::size_t c = e.current();
      const std::uint64_t began = e.epoch();
      const double drawn = static_cast<double>(random() >> 11) * 0x1p-53 * 2 - 1;
      const double us = 1000 * (1 + laws[c].slow_down) * (1 + noise * drawn);
      ++used[c];
      slower += laws[c].slow_down;
      e.gained(from_us(us), from_us(us * laws[c].gain));
      e.ended(alone, began, from_us(us));
    }
  }
};

} // namespace

TEST_CASE("exploration: of what is tolerated, the choice with the most work stays") {
  for (const double noise : {0.0, 0.2}) {
    CAPTURE(noise);
    world w{{{{0, 0}, {0.01, 0.1}, {0.02, 0.3}, {0.2, 0.9}}}, noise};
    exploration e(4, 0.05);
    solo_time alone;
    w.run(e, alone, 2000);
    w.used = {};
    w.run(e, alone, 20000);
    CHECK(w.used[2] > 15000);
    CHECK(w.used[3] < 1500);
    CHECK(std::abs(alone.mean_ns() - 1e6) < 1e5);
  }
}

TEST_CASE("exploration: where nothing is tolerated or gains, nothing runs beside") {
  world hurts{{{{0, 0}, {0.3, 0.5}, {0.5, 0.9}}}, 0.1};
  exploration e(3, 0.05);
  solo_time alone;
  hurts.run(e, alone, 20000);
  CHECK(hurts.used[0] > 18500);
  CHECK(hurts.slower / 20000 < 0.02);
  world idle{{{{0, 0}, {0, 0}}}, 0.1};
  exploration f(2, 0.05);
  solo_time other;
  idle.run(f, other, 20000);
  CHECK(idle.used[0] > 18500);
}

TEST_CASE("exploration: a choice that begins to hurt is left within a few jobs, and found again") {
  world w{{{{0, 0}, {0, 0.5}}}, 0.05};
  exploration e(2, 0.05);
  solo_time alone;
  w.run(e, alone, 1000);
  CHECK(e.current() == 1);
  w.laws[1].slow_down = 0.5;
  int jobs = 0;
  for (; e.current() == 1 && jobs < 100; ++jobs) w.run(e, alone, 1);
  CHECK(jobs <= 4);
  w.laws[1].slow_down = 0;
  w.used = {};
  w.run(e, alone, 5000);
  CHECK(w.used[1] > 2500);
}

TEST_CASE("exploration: with nothing to choose, nothing is measured") {
  exploration e;
  solo_time alone;
  e.ended(alone, 0, from_us(5));
  CHECK_FALSE(alone.known());
  CHECK(e.current() == 0);
}

// SPDX-License-Identifier: Apache-2.0
#include "occupancy/launches.hpp"

#include <gsched/occupancy/aggregate_accountant.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <utility>
#include <vector>

using namespace gsched;
using namespace gsched::testing;

namespace {

footprint segment(double fill, double us) {
  footprint f;
  f.fill = fill;
  f.peak = fill;
  f.time = from_us(us);
  return f;
}

aggregate_accountant with(double fill, double us) {
  return {hopper, sm_count{132}, {.overshoot_fill = fill, .overshoot_time = from_us(us)}};
}

} // namespace

TEST_CASE("a time of overshoot keeps one segment waiting behind one that fills the GPU") {
  aggregate_accountant a = with(0, 100);
  a.charge(segment_id{0}, segment(1, 100));
  CHECK(a.queued() == duration::zero());
  CHECK(a.has_room());
  a.charge(segment_id{1}, segment(1, 100));
  CHECK(a.queued() == from_us(100));
  CHECK_FALSE(a.has_room());
  a.release(segment_id{0});
  CHECK(a.has_room());
}

TEST_CASE("short segments are queued until they make the time, long ones until one waits") {
  const auto outstanding = [](double fill, double us) {
    aggregate_accountant a = with(0, 50);
    std::uint64_t n = 0;
    while (a.has_room()) a.charge(segment_id{n++}, segment(fill, us));
    return n;
  };
  CHECK(outstanding(1, 5) == 11);
  CHECK(outstanding(1, 1000) == 2);
  CHECK(outstanding(0.25, 1000) == 5); // four run, and a fifth waits for a quarter of the GPU
}

TEST_CASE("an overshoot of fill is a share of the GPU") {
  aggregate_accountant a = with(0.5, 0);
  std::uint64_t n = 0;
  while (a.has_room()) a.charge(segment_id{n++}, segment(0.125, 1e6));
  CHECK(n == 12);
}

TEST_CASE("by default several segments that fill the GPU are in flight, so that it never idles") {
  aggregate_accountant a(hopper, sm_count{132}, {});
  std::uint64_t n = 0;
  while (a.has_room()) a.charge(segment_id{n++}, segment(1, 100));
  CHECK(n >= 4); // with one, a loaded mix loses a fifth of the throughput
}

TEST_CASE("copies take no room") {
  aggregate_accountant a = with(0, 0);
  a.charge(segment_id{0}, segment(0, 1000));
  CHECK(a.load() == 0.0);
  CHECK(a.has_room());
}

TEST_CASE("footprints beyond all measure are bounded, and return to exactly zero") {
  constexpr double inf = std::numeric_limits<double>::infinity();
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  aggregate_accountant a = with(0, 0);
  std::uint64_t id = 0;
  for (const double fill : {-1.0, 0.0, 1e-30, 0.3, 2.0, inf, -inf, nan})
    for (const duration time : {duration::min(), duration{-1}, duration{1}, duration::max()}) {
      footprint f;
      f.fill = fill;
      f.time = time;
      a.charge(segment_id{id++}, f);
      CHECK(a.load() >= 0.0);
      CHECK(a.load() <= static_cast<double>(id));
      CHECK(a.queued() >= duration::zero());
    }
  while (id > 0) a.release(segment_id{--id});
  CHECK(a.load() == 0.0);
  CHECK(a.queued() == duration::zero());
}

TEST_CASE("agrees with adding everything up anew, over random calls") {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    std::mt19937_64 random(seed);
    const auto draw = [&](double most) {
      return most * static_cast<double>(random() % 1000) / 1000;
    };
    const double over_fill = draw(1);
    const double over_us = draw(200);
    aggregate_accountant a = with(over_fill, over_us);
    std::map<std::uint64_t, footprint> model;
    for (std::uint64_t i = 0; i < 600; ++i) {
      if (model.empty() || (model.size() < 200 && random() % 2 == 0)) {
        const footprint f = segment(draw(1), draw(300));
        a.charge(segment_id{i}, f);
        model[i] = f;
      } else {
        const auto victim = std::next(model.begin(), static_cast<int>(random() % model.size()));
        a.release(segment_id{victim->first});
        model.erase(victim);
      }
      double fill = 0;
      double work = 0;
      for (const auto& [id, f] : model) {
        fill += f.fill;
        work += f.fill * to_us(f.time);
      }
      const double queued = fill > 1 ? work * (1 - 1 / fill) : 0;
      REQUIRE(a.load() == doctest::Approx(fill).epsilon(1e-6));
      REQUIRE(std::abs(to_us(a.queued()) - queued) < 0.2);
      if (std::abs(fill - 1 - over_fill) < 1e-6 || std::abs(queued - over_us) < 0.2) continue;
      REQUIRE(a.has_room() == (fill < 1 + over_fill || queued < over_us));
    }
  }
}

TEST_CASE("a segment that is queued behind another one fills the GPU when that one has left") {
  aggregate_accountant a = with(1, 0);
  a.charge(segment_id{1}, segment(1, 100));
  a.charge(segment_id{2}, segment(0.5, 100), segment_id{1});
  a.charge(segment_id{3}, segment(1, 100), segment_id{2});
  CHECK(a.load() == 1.0);
  CHECK(a.has_room());
  a.charge(segment_id{4}, segment(1, 100)); // on another lane
  CHECK(a.load() == 2.0);
  CHECK_FALSE(a.has_room());
  a.release(segment_id{1});
  CHECK(a.load() == 1.5);
  CHECK(a.has_room());
  a.release(segment_id{2});
  CHECK(a.load() == 2.0);
  a.release(segment_id{3});
  a.release(segment_id{4});
  CHECK(a.load() == 0.0);
  // which does not exist: it is next at once
  a.charge(segment_id{5}, segment(1, 100), segment_id{1});
  CHECK(a.load() == 1.0);
  CHECK(a.violations().total() == 0);
}

TEST_CASE("the fills of those that are next on their lanes sum up, whichever are taken back") {
  std::mt19937_64 random(11);
  aggregate_accountant a = with(1, 0);
  std::map<int, std::vector<std::pair<std::uint64_t, double>>> lanes;
  std::uint64_t next = 0;
  for (int step = 0; step < 20000; ++step) {
    auto& lane = lanes[static_cast<int>(random() % 4)];
    if (random() % 2 == 0 && lane.size() < 8) {
      const double fill = static_cast<double>(1 + random() % 16) / 16;
      const auto behind =
          lane.empty() ? std::nullopt : std::optional(segment_id{lane.back().first});
      a.charge(segment_id{next}, segment(fill, 10), behind);
      lane.emplace_back(next++, fill);
    } else if (!lane.empty()) {
      const auto which = lane.begin() + static_cast<std::ptrdiff_t>(random() % lane.size());
      a.release(segment_id{which->first});
      lane.erase(which);
    }
    double sum = 0;
    for (const auto& [id, segments] : lanes) sum += segments.empty() ? 0 : segments.front().second;
    REQUIRE(a.load() == doctest::Approx(sum));
  }
  for (auto& [id, segments] : lanes)
    for (const auto& s : segments) a.release(segment_id{s.first});
  CHECK(a.load() == 0.0);
  CHECK(a.violations().total() == 0);
}

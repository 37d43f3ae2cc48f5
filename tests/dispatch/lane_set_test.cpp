// SPDX-License-Identifier: Apache-2.0
#include <gsched/dispatch/detail/lane_set.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <random>

using namespace gsched;

TEST_CASE("lane_set: a lane is filled from below the low mark up to the high mark") {
  lane_set lanes(from_us(100), from_us(200));
  lanes.open(lane_id{0});
  std::array<flight, 3> f;
  for (flight& one : f) one.expected = from_us(100);
  CHECK(lanes.least_queued() == 0u);
  lanes.add(0, f[0]); // 100: below high, still refilling
  CHECK(lanes.any_refilling());
  lanes.add(0, f[1]); // 200: full
  CHECK_FALSE(lanes.any_refilling());
  lanes.remove(0, f[0]); // 100: not below low, so not yet refilling
  CHECK_FALSE(lanes.any_refilling());
  lanes.remove(0, f[1]);
  CHECK(lanes.any_refilling());
}

TEST_CASE("lane_set: an empty lane is always filled, even when work is expected to take no time") {
  lane_set lanes(duration::zero(), from_us(1));
  lanes.open(lane_id{0});
  flight f;
  CHECK(lanes.any_refilling());
  lanes.add(0, f);
  CHECK(lanes.any_refilling()); // 0 < high
  f.expected = duration::zero();
  lanes.remove(0, f);
  CHECK(lanes.any_refilling());
}

TEST_CASE("lane_set: spare lanes want work only where they are asked for") {
  lane_set lanes(from_us(100), from_us(200));
  lanes.open(lane_id{0});
  lanes.open_spare(lane_id{1});
  std::array<flight, 2> f;
  for (flight& one : f) one.expected = from_us(300);
  CHECK(lanes.least_queued(0, true) == 0u); // the lowest of the empty lanes
  lanes.add(0, f[0]);
  CHECK_FALSE(lanes.any_refilling());
  CHECK(lanes.least_queued() == std::nullopt);
  CHECK(lanes.any_refilling(0, true));
  CHECK(lanes.least_queued(0, true) == 1u);
  CHECK(lanes.lanes(0) == 1);
  CHECK(lanes.next_round_robin() == 0);
  CHECK(lanes.next_round_robin() == 0);
  lanes.add(1, f[1]);
  CHECK_FALSE(lanes.any_refilling(0, true));
  lanes.set_marks(0, from_us(1000), from_us(2000));
  CHECK(lanes.any_refilling());
  lanes.remove(0, f[0]);
  lanes.remove(1, f[1]);
}

TEST_CASE("lane_set: random adds and removes agree with a recount") {
  constexpr std::uint32_t places = 5;
  const duration low = from_us(50);
  const duration high = from_us(120);
  lane_set lanes(low, high);
  for (std::uint32_t i = 0; i < places; ++i) lanes.open(lane_id{i + 10});
  std::array<std::deque<flight*>, places> model;
  std::array<bool, places> refilling;
  refilling.fill(true);
  std::deque<flight> storage(400);
  std::vector<flight*> unused;
  for (flight& f : storage) unused.push_back(&f);
  std::mt19937_64 random(7);
  const auto queued = [&](std::uint32_t p) {
    duration sum{};
    for (const flight* f : model[p]) sum += f->expected;
    return sum;
  };
  for (int step = 0; step < 20000; ++step) {
    const auto place = static_cast<std::uint32_t>(random() % places);
    if (random() % 2 == 0 && !unused.empty()) {
      flight* f = unused.back();
      unused.pop_back();
      f->expected = duration{static_cast<duration::rep>(random() % 60000)};
      lanes.add(place, *f);
      model[place].push_back(f);
    } else if (!model[place].empty()) {
      flight* f = random() % 3 == 0 ? model[place].back() : model[place].front();
      lanes.remove(place, *f);
      model[place].erase(std::find(model[place].begin(), model[place].end(), f));
      unused.push_back(f);
    }
    const duration q = queued(place);
    refilling[place] = model[place].empty() || q < low || (refilling[place] && q < high);
    std::optional<std::uint32_t> expected;
    for (std::uint32_t p = 0; p < places; ++p) {
      REQUIRE(lanes.queued(p) == queued(p));
      REQUIRE(lanes.newest(p) == (model[p].empty() ? nullptr : model[p].back()));
      REQUIRE(lanes.oldest(p) == (model[p].empty() ? nullptr : model[p].front()));
      if (refilling[p] && (!expected || queued(p) < queued(*expected))) expected = p;
    }
    REQUIRE(lanes.least_queued() == expected);
    REQUIRE(lanes.any_refilling() == expected.has_value());
  }
  for (std::uint32_t p = 0; p < places; ++p)
    while (flight* f = lanes.oldest(p)) lanes.remove(p, *f);
}

TEST_CASE(
    "lane_set: what is queued on alternates counts for their lane, and is kept in its own order") {
  lane_set lanes(from_us(100), from_us(200));
  lanes.open(lane_id{0});
  lanes.open(lane_id{1});
  lanes.add_group(duration::zero(), from_us(1));
  lanes.open(lane_id{2});
  lanes.open_alternate(lane_id{3}, 0);
  lanes.open_alternate(lane_id{4}, 1);
  CHECK(lanes.size() == 5);
  CHECK(lanes.lanes(0) == 2);
  CHECK(lanes.lanes(1) == 1);
  CHECK(lanes.group_of(3) == 0);
  CHECK(lanes.find(lane_id{4}) == 4u);
  std::array<flight, 4> f;
  for (flight& one : f) one.expected = from_us(120);
  lanes.add(3, f[0]);
  lanes.add(0, f[1]);
  CHECK(lanes.queued(0) == from_us(240));
  CHECK(lanes.least_queued(0) == 1u); // the first lane is full
  lanes.add(4, f[2]);
  lanes.add(4, f[3]);
  CHECK_FALSE(lanes.any_refilling(0));
  CHECK(lanes.oldest(0) == &f[1]);
  CHECK(lanes.oldest(3) == &f[0]);
  CHECK(lanes.newest(4) == &f[3]);
  lanes.remove(3, f[0]);
  CHECK_FALSE(lanes.any_refilling(0)); // not below the low mark
  lanes.remove(0, f[1]);
  CHECK(lanes.least_queued(0) == 0u);
  lanes.remove(4, f[2]);
  lanes.remove(4, f[3]);
  CHECK(lanes.queued(1) == duration::zero());
}

TEST_CASE("lane_set: nothing is queued behind what is to be last") {
  lane_set lanes(from_us(100), from_us(200));
  lanes.open(lane_id{0});
  lanes.open_alternate(lane_id{1}, 0);
  std::array<flight, 2> f;
  for (flight& one : f) one.expected = from_us(10);
  f[1].last = true;
  lanes.add(0, f[0]);
  CHECK(lanes.any_refilling());
  lanes.add(1, f[1]); // an alternate counts too
  CHECK_FALSE(lanes.any_refilling());
  lanes.remove(0, f[0]);
  CHECK_FALSE(lanes.any_refilling());
  lanes.remove(1, f[1]);
  CHECK(lanes.any_refilling());
}

TEST_CASE("lane_set: where a lane's long work is, on it or on an alternate, until it has ended") {
  lane_set lanes(from_us(100), from_us(200));
  lanes.open(lane_id{0});
  lanes.open(lane_id{1});
  lanes.open_alternate(lane_id{2}, 0);
  std::array<flight, 3> f;
  for (flight& one : f) one.expected = from_us(10);
  f[1].has_long = f[2].has_long = true;
  lanes.add(0, f[0]);
  CHECK_FALSE(lanes.long_place(0));
  lanes.add(2, f[1]);
  CHECK(lanes.long_place(0) == 2u);
  CHECK_FALSE(lanes.long_place(1));
  lanes.add(2, f[2]);
  lanes.remove(2, f[1]);
  CHECK(lanes.long_place(0) == 2u);
  lanes.remove(2, f[2]);
  CHECK_FALSE(lanes.long_place(0));
  lanes.add(0, f[1]);
  CHECK(lanes.long_place(0) == 0u);
  lanes.remove(0, f[1]);
  lanes.remove(0, f[0]);
}

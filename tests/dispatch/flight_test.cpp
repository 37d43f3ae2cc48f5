// SPDX-License-Identifier: Apache-2.0
#include <gsched/dispatch/active_job.hpp>
#include <gsched/dispatch/detail/flight.hpp>

#include <doctest/doctest.h>

#include <set>
#include <vector>

using namespace gsched;

TEST_CASE("flight_table: ids are found while in flight, never after, and never twice") {
  flight_table table(3);
  entry_pool entries;
  frame_pool frames;
  active_job owner(entries, frames);
  std::set<segment_id> seen;
  for (int round = 0; round < 100; ++round) {
    std::vector<flight*> out;
    while (flight* f = table.try_take(owner)) {
      CHECK(seen.insert(f->id).second);
      CHECK(table.find(f->id) == f);
      out.push_back(f);
    }
    CHECK(out.size() == 3);
    CHECK(table.full());
    for (flight* f : out) {
      const segment_id id = f->id;
      table.give_back(*f);
      CHECK(table.find(id) == nullptr);
    }
    CHECK(table.in_use() == 0);
  }
}

TEST_CASE("flight_table: an id that was never given out is no flight") {
  flight_table table(2);
  entry_pool entries;
  frame_pool frames;
  active_job owner(entries, frames);
  flight* f = table.try_take(owner);
  REQUIRE(f != nullptr);
  CHECK(table.find(segment_id{index(f->id) + 1}) == nullptr);
  CHECK(table.find(segment_id{~0ull}) == nullptr);
  CHECK(table.find(segment_id{0}) == nullptr);
}

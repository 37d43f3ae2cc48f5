// SPDX-License-Identifier: Apache-2.0
#include <gsched/occupancy/detail/segment_table.hpp>

#include <gsched/core/error.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <set>

using namespace gsched;

TEST_CASE("agrees with std::map over random calls, slots stay put and are dense") {
  using table = segment_table<std::uint64_t>;
  for (const std::size_t capacity : {1u, 3u, 16u, 100u}) {
    std::mt19937_64 random(capacity);
    table t(capacity);
    std::map<std::uint64_t, std::uint32_t> model;
    std::uint64_t next = 0;
    for (int i = 0; i < 20'000; ++i) {
      if (random() % 2 == 0) {
        const std::uint64_t id = random() % 4 == 0 ? random() : next++; // dense, and not
        if (model.contains(id)) continue;
        const std::uint32_t slot = t.try_insert(segment_id{id});
        REQUIRE((slot == table::none) == (model.size() == capacity));
        if (slot == table::none) continue;
        REQUIRE(slot < capacity);
        REQUIRE(t[slot] == 0);
        t[slot] = id;
        model[id] = slot;
      } else if (!model.empty()) {
        auto victim = model.lower_bound(random() % 2 == 0 ? random() : random() % (next + 1));
        if (victim == model.end()) victim = model.begin();
        t.erase(segment_id{victim->first});
        REQUIRE(t.find(segment_id{victim->first}) == table::none);
        model.erase(victim);
      }
      REQUIRE(t.size() == model.size());
      REQUIRE(t.full() == (model.size() == capacity));
      if (i % 16 != 0) continue;
      std::set<std::uint32_t> slots;
      for (const auto& [id, slot] : model) {
        REQUIRE(t.find(segment_id{id}) == slot);
        REQUIRE(t[slot] == id);
        slots.insert(slot);
      }
      REQUIRE(slots.size() == model.size());
    }
  }
}

TEST_CASE("no room at all is refused") { CHECK_THROWS_AS(segment_table<int>{0}, error); }

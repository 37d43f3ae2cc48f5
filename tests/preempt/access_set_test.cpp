// SPDX-License-Identifier: Apache-2.0
#include "preempt/access_model.hpp"

#include <gsched/preempt/access_set.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace gsched::testing {
namespace {

bool sorted_and_apart(const access_set& s) {
  const auto& r = s.ranges();
  for (std::size_t i = 0; i < r.size(); ++i)
    if (r[i].empty() || (i > 0 && r[i].first <= r[i - 1].last)) return false;
  return true;
}

TEST_CASE("ranges are sorted, and merged where they touch or overlap") {
  const access_set s({{30, 40}, {7, 7}, {10, 20}, {20, 25}, {12, 14}, {9, 3}});
  CHECK(s.ranges() == std::vector<byte_range>{{10, 25}, {30, 40}});
  CHECK(s.bytes() == 25);
  CHECK(s.contains(10));
  CHECK(s.contains(24));
  CHECK_FALSE(s.contains(25));
  CHECK_FALSE(s.contains(9));
  CHECK(access_set{}.empty());
}

TEST_CASE("addresses up to the last one") {
  constexpr auto end = std::numeric_limits<std::uint64_t>::max();
  const access_set s({{end - 4, end}, {0, 2}});
  CHECK((s - access_set({{end - 2, end}})).ranges() ==
        std::vector<byte_range>{{0, 2}, {end - 4, end - 2}});
  CHECK((s & access_set({{1, end}})).bytes() == 5);
}

TEST_CASE("union, intersection and difference are those of the bytes") {
  std::mt19937_64 random(4);
  constexpr byte_mask all = (1u << memory_bytes) - 1;
  for (int i = 0; i < 20000; ++i) {
    const auto x = static_cast<byte_mask>(random()) & all;
    const auto y = static_cast<byte_mask>(random()) & all;
    const access_set a = set_of(x);
    const access_set b = set_of(y);
    REQUIRE(mask_of(a | b) == (x | y));
    REQUIRE(mask_of(a & b) == (x & y));
    REQUIRE(mask_of(a - b) == (x & ~y));
    for (const access_set& s : {a | b, a & b, a - b}) REQUIRE(sorted_and_apart(s));
  }
}

} // namespace
} // namespace gsched::testing

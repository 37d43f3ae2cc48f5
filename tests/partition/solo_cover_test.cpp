// SPDX-License-Identifier: Apache-2.0
#include "partition/random_table.hpp"

#include <gsched/partition/detail/solo_cover.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

namespace gsched::testing {
namespace {

/// By trying every choice of pieces.
double most_of(const piece_menu& menu, std::size_t from, const taken& left) {
  double most = 0;
  for (std::size_t p = from; p < menu.pieces().size(); ++p) {
    const taken t = taken::by(menu.pieces()[p]);
    if (!t.within(left)) continue;
    taken after = left;
    after -= t;
    most = std::max(most, menu.rate(p, 0) + most_of(menu, p, after));
  }
  return most;
}

} // namespace

TEST_CASE("the most that one model gets from a pool, and the least that it takes") {
  std::mt19937_64 random(41);
  std::size_t ways_in_all = 0;
  for (int i = 0; i < 200; ++i) {
    CAPTURE(i);
    const latency_table t = random_table(random, 1, {8, 16, 24}, 4);
    const std::vector<gpu_shape> shapes{
        {sm_count{28}, sm_count{8}},
        {sm_count{28}, sm_count{8}},
        {sm_count{24}, sm_count{8}},
        {sm_count{static_cast<std::uint32_t>(24 + random() % 5)}, sm_count{8}}};
    const duration slo =
        t.latency(0, 1, sm_count{24}) * static_cast<duration::rep>(2 + random() % 8);
    demand d{0, 1e9, slo};
    const piece_menu all_menu(t, std::span(&d, 1), shapes);

    const double most = most_of(all_menu, 0, all_of(all_menu));
    d.rate = most * static_cast<double>(random() % 1000) / 1000 + 1;
    const piece_menu menu(t, std::span(&d, 1), shapes);
    const solo_cover cover(menu, 0, 100'000);
    REQUIRE(cover.exact());
    const std::vector<taken> ways = cover.least(d.rate);
    REQUIRE(ways.empty() == (d.rate > most));
    ways_in_all += ways.size();
    for (const taken& way : ways) {
      REQUIRE(most_of(menu, 0, way) >= d.rate * (1 - 1e-9));
      double served = 0;
      taken used;
      for (const std::size_t p : cover.pieces_within(way)) {
        served += menu.rate(p, 0);
        used += taken::by(menu.pieces()[p]);
      }
      REQUIRE(served == doctest::Approx(cover.most(way)));
      REQUIRE(used.within(way));
      for (std::size_t s = 0; s < taken::sorts; ++s) {
        taken fewer = way;
        if (fewer.of[s] == 0) continue;
        --fewer.of[s];
        REQUIRE(most_of(menu, 0, fewer) < d.rate);
      }
    }
    // Whatever is enough takes one of these ways or more.
    for (int k = 0; k < 20; ++k) {
      taken some;
      for (std::size_t s = 0; s < taken::sorts; ++s)
        some.of[s] = static_cast<std::uint32_t>(random() % (all_of(menu).of[s] + 1));
      const bool is_enough = most_of(menu, 0, some) >= d.rate;
      REQUIRE(is_enough == std::any_of(ways.begin(), ways.end(),
                                       [&](const taken& w) { return w.within(some); }));
    }
  }
  CHECK(ways_in_all > 400);
}

TEST_CASE("over its entries a cover is not usable") {
  std::mt19937_64 random(42);
  const latency_table t = random_table(random, 1, {8}, 1);
  const std::vector<gpu_shape> shapes(4, {sm_count{28}, sm_count{8}});
  const demand d{0, 1e9, 4 * t.latency(0, 1, sm_count{8})};
  const piece_menu menu(t, std::span(&d, 1), shapes);
  CHECK(!solo_cover(menu, 0, 44).usable()); // 9 x 5
  CHECK(solo_cover(menu, 0, 45).usable());
}

} // namespace gsched::testing

// SPDX-License-Identifier: Apache-2.0
#include "partition/random_table.hpp"

#include <gsched/partition/detail/search/exclusive_knapsack.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

namespace gsched::testing {

using namespace detail;

namespace {

/// By enumeration of candidates.
double most_of(const candidate_table& choices, std::size_t from, const group_usage& left) {
  double most = 0;
  for (std::size_t p = from; p < choices.candidates().size(); ++p) {
    const group_usage t = group_usage::by(choices.candidates()[p]);
    if (!t.within(left)) continue;
    group_usage after = left;
    after -= t;
    most = std::max(most, choices.rate(p, 0) + most_of(choices, p, after));
  }
  return most;
}

} // namespace

TEST_CASE("the knapsack agrees with exhaustive enumeration") {
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
    model_demand d{0, 1e9, slo};
    const candidate_table all_choices(t, std::span(&d, 1), shapes);

    const double most = most_of(all_choices, 0, all_of(all_choices));
    d.rate = most * static_cast<double>(random() % 1000) / 1000 + 1;
    const candidate_table choices(t, std::span(&d, 1), shapes);
    const exclusive_knapsack cover(choices, 0, 100'000);
    REQUIRE(cover.exact());
    const std::vector<group_usage> ways = cover.least(d.rate);
    REQUIRE(ways.empty() == (d.rate > most));
    ways_in_all += ways.size();
    for (const group_usage& way : ways) {
      REQUIRE(most_of(choices, 0, way) >= d.rate * (1 - 1e-9));
      double served = 0;
      group_usage used;
      for (const std::size_t p : cover.candidates_within(way)) {
        served += choices.rate(p, 0);
        used += group_usage::by(choices.candidates()[p]);
      }
      REQUIRE(served == doctest::Approx(cover.most(way)));
      REQUIRE(used.within(way));
      for (std::size_t s = 0; s < group_usage::sorts; ++s) {
        group_usage fewer = way;
        if (fewer.of[s] == 0) continue;
        --fewer.of[s];
        REQUIRE(most_of(choices, 0, fewer) < d.rate);
      }
    }
    // Any sufficient usage contains a minimal one.
    for (int k = 0; k < 20; ++k) {
      group_usage some;
      for (std::size_t s = 0; s < group_usage::sorts; ++s)
        some.of[s] = static_cast<std::uint32_t>(random() % (all_of(choices).of[s] + 1));
      const bool is_enough = most_of(choices, 0, some) >= d.rate;
      REQUIRE(is_enough == std::any_of(ways.begin(), ways.end(),
                                       [&](const group_usage& w) { return w.within(some); }));
    }
  }
  CHECK(ways_in_all > 400);
}

TEST_CASE("a knapsack with too many entries is not usable") {
  std::mt19937_64 random(42);
  const latency_table t = random_table(random, 1, {8}, 1);
  const std::vector<gpu_shape> shapes(4, {sm_count{28}, sm_count{8}});
  const model_demand d{0, 1e9, 4 * t.latency(0, 1, sm_count{8})};
  const candidate_table choices(t, std::span(&d, 1), shapes);
  CHECK(!exclusive_knapsack(choices, 0, 44).usable()); // 9 x 5
  CHECK(exclusive_knapsack(choices, 0, 45).usable());
}

} // namespace gsched::testing

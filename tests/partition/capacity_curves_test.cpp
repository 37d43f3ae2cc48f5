// SPDX-License-Identifier: Apache-2.0
#include "partition/random_table.hpp"

#include <gsched/partition/detail/packing/capacity_curves.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

namespace gsched::testing {

using namespace detail;

namespace {

latency_table table_of(auto us) {
  std::vector<latency_row> rows;
  for (std::uint32_t s = 8; s <= 48; s += 8) rows.push_back({"m", 1, sm_count{s}, from_us(us(s))});
  return latency_table(rows);
}

std::uint32_t efficient(const latency_table& t, duration slo) {
  const model_demand d{0, 1, slo};
  const std::vector<gpu_shape> one{{sm_count{48}, sm_count{8}}};
  return capacity_curves(t, std::span(&d, 1), one, no_interference{}).efficient(0, 0);
}

/// A neighbour of model 1 adds 10% for each request of its batch, another adds 10%; two add up.
struct by_model {
  double operator()(std::span<const gpulet> all, std::size_t which, std::size_t) const {
    double slower = 1;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (i != which)
        slower += all[i].portions[0].model == 1 ? 0.1 * all[i].portions[0].batch : 0.1;
    return slower;
  }
};

} // namespace

TEST_CASE("the most efficient size, and the size required for a rate") {
  std::mt19937_64 random(13);
  for (int i = 0; i < 300; ++i) {
    CAPTURE(i);
    const latency_table t = random_table(random, 2, {8, 16, 32}, 8);
    std::vector<model_demand> demands;
    for (std::size_t m = 0; m < 2; ++m)
      demands.push_back({m, 1, std::chrono::microseconds{50 + random() % 500}});
    const std::vector<gpu_shape> shapes{
        {sm_count{32}, sm_count{8}}, {sm_count{28}, sm_count{8}}, {sm_count{32}, sm_count{8}}};
    const capacity_curves curves(t, demands, shapes, no_interference{});
    REQUIRE(curves.kinds() == 2);
    REQUIRE(curves.kind_of(2) == curves.kind_of(0));
    for (std::size_t k = 0; k < 2; ++k)
      for (std::size_t d = 0; d < 2; ++d) {
        const double wanted = static_cast<double>(1 + random() % 200000);
        const std::uint32_t groups = shapes[k].groups();
        std::uint32_t required = groups + 1;
        double most = 0;
        for (std::uint32_t n = groups; n > 0; --n) {
          const double rate = capacity_of(t, d, shapes[k].of_groups(n), demands[d].slo).rate;
          REQUIRE(curves.solo_rate(k, d, n) == rate);
          REQUIRE(curves.rate(k, d, n) == doctest::Approx(rate));
          REQUIRE(curves.slowdown(k, d, n) == 1);
          const double filling = capacity_of(t, d, shapes[k].filling(n), demands[d].slo).rate;
          REQUIRE(curves.solo_filling_rate(k, d, n) == filling);
          REQUIRE(curves.filling_rate(k, d, n) == doctest::Approx(filling));
          if (curves.rate(k, d, n) >= wanted) required = n;
          most = std::max(most, rate / n);
        }
        REQUIRE(curves.required(k, d, wanted) == required);
        const std::uint32_t best = curves.efficient(k, d);
        REQUIRE((best == 0) == (most == 0));
        if (best > 0) REQUIRE(curves.solo_rate(k, d, best) / best >= most * (1 - 1e-8));
        for (std::uint32_t n = 1; n < best; ++n) REQUIRE(curves.solo_rate(k, d, n) / n < most);
      }
  }
}

TEST_CASE("the efficient size is where more SMs stop helping, or the smallest that meets the SLO") {
  const duration slo = std::chrono::seconds{1};
  CHECK(efficient(table_of([](std::uint32_t s) { return 4800.0 / s; }), slo) == 1);
  CHECK(efficient(table_of([](std::uint32_t) { return 5.0; }), slo) == 1);
  for (const std::uint32_t flat :
       {2u, 3u, 4u, 5u}) // each group does more than the last up to there
    CHECK(efficient(table_of([&](std::uint32_t s) {
                      const double groups = std::min(s / 8, flat);
                      return 4800 / (groups * groups);
                    }),
                    slo) == flat);
  // No size meets such an SLO, or only the largest does.
  const latency_table t = table_of([](std::uint32_t s) { return 4800.0 / s; });
  CHECK(efficient(t, from_us(199)) == 0);
  CHECK(efficient(t, from_us(200)) == 6);
}

TEST_CASE("a partition is planned beside the worst neighbours, a whole GPU beside none") {
  std::vector<latency_row> rows;
  for (const char* m : {"a", "b"})
    for (const std::uint32_t b : {1u, 2u, 3u, 4u})
      for (const std::uint32_t s : {8u, 16u, 32u})
        rows.push_back({m, b, sm_count{s}, from_us(100.0 * b * 8 / s)});
  const latency_table t(rows);
  const std::vector<model_demand> demands{{0, 1, from_us(100'000)}, {1, 1, from_us(100'000)}};
  const std::vector<gpu_shape> one{{sm_count{32}, sm_count{8}}};
  capacity_curves curves(t, demands, one, by_model{});
  const std::uint32_t batch =
      curves.solo_rate(0, 1, 1) > 0 ? capacity_of(t, 1, sm_count{8}, demands[1].slo).batch : 0;
  for (std::size_t d = 0; d < 2; ++d) {
    CHECK(curves.slowdown(0, d, 1) == doctest::Approx(1 + 2 * 0.1 * batch)); // two on 1 of 3 groups
    CHECK(curves.slowdown(0, d, 2) == doctest::Approx(1 + 2 * 0.1 * batch));
    CHECK(curves.slowdown(0, d, 3) == doctest::Approx(1 + 0.1 * batch)); // one on the last
    CHECK(curves.slowdown(0, d, 4) == 1);
    for (std::uint32_t n = 1; n <= 4; ++n)
      CHECK(curves.rate(0, d, n) ==
            doctest::Approx(curves.solo_rate(0, d, n) / curves.slowdown(0, d, n)).epsilon(1e-3));
    CHECK(curves.efficient(0, d) == 4);
  }
  curves.set_caution(0.5);
  CHECK(curves.slowdown(0, 0, 3) == doctest::Approx(1 + 0.05 * batch));
  curves.set_caution(0);
  CHECK(curves.slowdown(0, 0, 3) == 1);
  CHECK(curves.rate(0, 0, 3) == doctest::Approx(curves.solo_rate(0, 0, 3)));
}

} // namespace gsched::testing

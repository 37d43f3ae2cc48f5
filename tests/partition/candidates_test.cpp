// SPDX-License-Identifier: Apache-2.0
#include "partition/every_plan.hpp"
#include "partition/random_table.hpp"

#include <gsched/partition/detail/search/candidates.hpp>
#include <gsched/partition/detail/search/gpu_bin_packing.hpp>
#include <gsched/partition/detail/search/rate_bound.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <vector>

namespace gsched::testing {

using namespace detail;

namespace {

model_demand any_demand(const latency_table& t, std::mt19937_64& random, std::size_t model) {
  return {model, 1 + static_cast<double>(random() % 1000),
          t.latency(model, 1, sm_count{24}) * static_cast<duration::rep>(2 + random() % 8)};
}

} // namespace

TEST_CASE("the candidate table has each size of a GPU and its rates alone") {
  std::mt19937_64 random(51);
  for (const gpu_shape g :
       {gpu_shape{}, gpu_shape{sm_count{28}, sm_count{8}}, gpu_shape{sm_count{32}, sm_count{8}},
        gpu_shape{sm_count{12}, sm_count{8}}, gpu_shape{sm_count{7}, sm_count{8}}}) {
    const latency_table t = random_table(random, 2, {8, 16, 24}, 4);
    const std::vector<model_demand> demands{any_demand(t, random, 0), any_demand(t, random, 1)};
    const std::vector<gpu_shape> two(2, g);
    const candidate_table choices(t, demands, two);
    REQUIRE(choices.kinds().size() == 1);
    CHECK(choices.kinds()[0].gpus == std::vector<std::uint32_t>{0, 1});
    std::multiset<sm_count> sizes;
    for (std::size_t p = 0; p < choices.candidates().size(); ++p) {
      sizes.insert(choices.candidates()[p].sms);
      for (std::size_t d = 0; d < 2; ++d) {
        double most = 0;
        for (std::uint32_t b = 1; b <= 4 && choices.candidates()[p].sms >= sm_count{8}; ++b)
          if (const duration l = t.latency(d, b, choices.candidates()[p].sms);
              2 * l <= demands[d].slo)
            most = std::max(most, b / to_s(l));
        CHECK(choices.rate(p, d) == most);
      }
    }
    for (std::uint32_t s = 1; s <= g.sms.count() + 1; ++s)
      CHECK(sizes.count(sm_count{s}) == (g.can_make(sm_count{s}) ? 1 : 0));
  }
}

TEST_CASE("a smaller candidate is planned with a larger slow-down, a whole GPU with none") {
  std::mt19937_64 random(52);
  const latency_table t = random_table(random, 2, {8, 16, 24}, 4);
  const std::vector<model_demand> demands{any_demand(t, random, 0), any_demand(t, random, 1)};
  const gpu_shape shape{sm_count{28}, sm_count{8}};
  const std::vector<double> factors{1.4, 1};
  const candidate_table choices(t, demands, std::span(&shape, 1), factors);
  for (std::size_t p = 0; p < choices.candidates().size(); ++p) {
    CHECK(choices.factor(p, 1) == 1);
    CHECK(choices.factor(p, 0) ==
          doctest::Approx(1 + 0.4 * (28 - choices.candidates()[p].sms.count()) / 28.0));
  }
}

TEST_CASE("candidates fit GPUs if and only if the GPUs can be split so") {
  std::mt19937_64 random(53);
  const latency_table t = random_table(random, 1, {8}, 1);
  const std::vector<model_demand> none;
  int fit = 0, no_fit = 0;
  for (int i = 0; i < 2000; ++i) {
    CAPTURE(i);
    const std::vector<gpu_shape> shapes{
        {sm_count{36}, sm_count{8}}, {sm_count{36}, sm_count{8}}, {sm_count{24}, sm_count{8}}};
    const candidate_table choices(t, none, shapes);
    std::vector<std::size_t> candidates(1 + random() % 6);
    for (std::size_t& p : candidates) p = random() % choices.candidates().size();
    work_budget budget(1'000'000);
    gpu_bin_packing found(choices, candidates);
    const feasibility v = found.run(budget);
    REQUIRE(v != feasibility::unknown);
    // Enumerates the GPU of each candidate.
    bool expected = false;
    const auto sizes_on = [&](std::uint32_t gpu, const auto& gpu_of) {
      std::vector<sm_count> sizes;
      for (std::size_t p = 0; p < candidates.size(); ++p)
        if (gpu_of(p) == gpu) sizes.push_back(choices.candidates()[candidates[p]].sms);
      return sizes;
    };
    std::size_t all = 1;
    for (std::size_t p = 0; p < candidates.size(); ++p) all *= 3;
    for (std::size_t n = 0; n < all && !expected; ++n) {
      const auto gpu_of = [&](std::size_t p) {
        std::size_t digits = n;
        while (p-- > 0) digits /= 3;
        return static_cast<std::uint32_t>(digits % 3);
      };
      expected = true;
      for (std::uint32_t g = 0; g < 3 && expected; ++g)
        expected = shapes[g].can_make(sizes_on(g, gpu_of));
      for (std::size_t p = 0; p < candidates.size() && expected; ++p)
        expected = (gpu_of(p) == 2) == (choices.candidates()[candidates[p]].kind == 1);
    }
    REQUIRE((v == feasibility::feasible) == expected);
    ++(expected ? fit : no_fit);
    const auto gpu_found = [&](std::size_t p) { return found.gpu(p); };
    for (std::uint32_t g = 0; g < 3 && expected; ++g)
      REQUIRE(shapes[g].can_make(sizes_on(g, gpu_found)));
  }
  CHECK(fit > 200);
  CHECK(no_fit > 200);
}

TEST_CASE("bin packing backtracks from the tightest fit, within its budget") {
  std::mt19937_64 random(55);
  const latency_table t = random_table(random, 1, {8}, 1);
  const std::vector<model_demand> none;
  const std::vector<gpu_shape> two(2, {sm_count{80}, sm_count{8}}); // 10 groups
  const candidate_table choices(t, none, two);
  std::vector<std::size_t> candidates;
  for (const std::uint32_t groups : {5u, 4u, 4u, 3u, 2u, 2u}) candidates.push_back(groups - 1);
  work_budget enough(1000), little(5);
  gpu_bin_packing fit(choices, candidates);
  CHECK(fit.run(enough) == feasibility::feasible); // 4 + 4 + 2, 5 + 3 + 2
  CHECK(fit.gpu(1) == fit.gpu(2));
  CHECK(gpu_bin_packing(choices, candidates).run(little) == feasibility::unknown);
  candidates.push_back(0);
  work_budget more(1000);
  CHECK(gpu_bin_packing(choices, candidates).run(more) == feasibility::infeasible);
}

TEST_CASE("the bound is never below the best plan, and equal to it for one model") {
  std::mt19937_64 random(54);
  for (int i = 0; i < 300; ++i) {
    CAPTURE(i);
    const std::size_t models = 1 + random() % 3;
    const latency_table t = random_table(random, models, {8, 16, 24}, 3);
    std::vector<gpu_shape> shapes{{sm_count{28}, sm_count{8}}};
    if (random() % 2 == 0 && models < 3) shapes.push_back({sm_count{16}, sm_count{8}});
    std::vector<model_demand> demands;
    for (std::size_t m = 0; m < models; ++m) demands.push_back(any_demand(t, random, m));
    const rate_bound bound = bound_of(candidate_table(t, demands, shapes));
    const double most = every_plan(t, demands, shapes).max_scale();
    REQUIRE(bound.scale >= most * (1 - 1e-9));
    if (models == 1) REQUIRE(bound.scale <= most * (1 + 1e-6));
    double worth = 0;
    for (std::size_t d = 0; d < models; ++d) {
      REQUIRE(bound.prices[d] >= 0);
      worth += bound.prices[d] * demands[d].rate;
    }
    REQUIRE(worth == doctest::Approx(1));
    // The prices prove the bound: it is the highest worth of the GPUs at these prices.
    const candidate_table choices(t, demands, shapes);
    double all = 0;
    for (std::uint32_t k = 0; k < choices.kinds().size(); ++k)
      all += static_cast<double>(choices.kinds()[k].gpus.size()) *
             best_column_of(choices, k, bound.prices).worth;
    REQUIRE(all == doctest::Approx(bound.scale).epsilon(1e-9));
  }
}

} // namespace gsched::testing

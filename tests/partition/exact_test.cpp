// SPDX-License-Identifier: Apache-2.0
#include "partition/every_plan.hpp"
#include "partition/random_table.hpp"
#include "sanitized.hpp"

#include <gsched/partition/bounded_search.hpp>
#include <gsched/partition/every_cut.hpp>
#include <gsched/partition/exact.hpp>
#include <gsched/partition/gpulet.hpp>
#include <gsched/partition/verify.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

namespace gsched::testing {

namespace {

struct some_demands {
  latency_table table;
  std::vector<gpu_shape> shapes{};
  std::vector<model_demand> demands{};
};

/// On one or two GPUs of `sms` SMs and up to `more`, with SLOs of 2 to 9 of the smallest batches on
/// the largest partition.
some_demands draw(std::mt19937_64& random, std::size_t models,
                  const std::vector<std::uint32_t>& sizes, std::uint32_t batches, std::uint32_t sms,
                  std::uint32_t more) {
  some_demands drawn{random_table(random, models, sizes, batches)};
  for (std::uint64_t g = 1 + random() % 2; g > 0; --g)
    drawn.shapes.push_back({sm_count{static_cast<std::uint32_t>(sms + random() % more)},
                            sm_count{8}, random() % 2 == 0});
  for (std::size_t m = 0; m < models; ++m)
    drawn.demands.push_back({m, 1 + static_cast<double>(random() % 1000),
                             drawn.table.latency(m, 1, sm_count{sizes.back()}) *
                                 static_cast<duration::rep>(2 + random() % 8)});
  return drawn;
}

struct answers {
  int served = 0; ///< demands
  int open = 0;   ///< questions
  int shared = 0; ///< partitions
};

/// Asks for less and for more than all that can be served, `most` times the demands. `also` sees
/// what was asked and said.
template <class Planner, class Also>
void ask(const Planner& planner, const some_demands& of, double most, answers& count, Also also) {
  if (most == 0) return;
  ++count.served;
  for (const double part : {0.5, 0.9999, 1.0001, 1.5}) {
    CAPTURE(part);
    std::vector<model_demand> scaled = of.demands;
    for (model_demand& d : scaled) d.rate *= most * part;
    const planning_result said = planner.solve(of.table, scaled, of.shapes);
    REQUIRE(said.bound * most * part >= most * (1 - 1e-9));
    also(part, scaled, said);
    count.open += said.status == feasibility::unknown;
    if (said.status == feasibility::unknown) continue;
    REQUIRE((said.status == feasibility::feasible) == (part < 1));
    REQUIRE(said.plan.has_value() == (part < 1));
    if (!said.plan) continue;
    const auto faults = faults_of(*said.plan, scaled, of.table, of.shapes);
    REQUIRE_MESSAGE(faults.empty(), faults.front());
    for (const gpulet& g : said.plan->gpulets) count.shared += g.portions.size() > 1;
  }
}

} // namespace

TEST_CASE("the exact planner agrees with exhaustive enumeration") {
  std::mt19937_64 random(31);
  answers count;
  for (int i = 0; i < 400; ++i) {
    CAPTURE(i);
    const std::size_t models = 1 + random() % 3;
    const auto batches = static_cast<std::uint32_t>(2 + random() % 3);
    const some_demands all = draw(random, models, {8, 16, 24}, batches, 16, 17);
    const double most = every_plan(all.table, all.demands, all.shapes).max_scale();
    ask(exact_planner{}, all, most, count, [](auto&&...) {});
  }
  CHECK(count.served > 200);
  CHECK(count.shared > 100);
  CHECK(count.open == 0);
}

TEST_CASE("the exact planner of two partitions agrees with exhaustive enumeration") {
  std::mt19937_64 random(33);
  answers count;
  int fewer = 0;
  for (int i = 0; i < (testing::sanitized ? 60 : 300); ++i) {
    CAPTURE(i);
    const std::size_t models = 2 + random() % 2;
    const auto batches = static_cast<std::uint32_t>(2 + random() % 2);
    const some_demands all = draw(random, models, {8, 16, 24, 32}, batches, 24, 21);
    const double most = every_plan(all.table, all.demands, all.shapes, 2).max_scale();
    const auto also = [&](double part, const auto& asked, const planning_result& said) {
      fewer += part > 1 && exact_planner{}.plan(all.table, asked, all.shapes).has_value();
      if (!said.plan) return;
      for (std::uint32_t gpu = 0; gpu < all.shapes.size(); ++gpu)
        REQUIRE(std::count_if(said.plan->gpulets.begin(), said.plan->gpulets.end(),
                              [&](const gpulet& g) { return g.gpu == gpu; }) <= 2);
    };
    ask(exact_two_partition_planner{}, all, most, count, also);
  }
  MESSAGE("served, shared, open, more with more partitions: "
          << count.served << ", " << count.shared << ", " << count.open << ", " << fewer);
  constexpr int part = testing::sanitized ? 5 : 1;
  CHECK(count.served > 200 / part);
  CHECK(count.shared > 100 / part);
  CHECK(fewer > 50 / part);
  CHECK(count.open == 0);
}

TEST_CASE("the bound of two partitions counts no third one") {
  // A partition does 1000 a second on one group, and 1500 on three or more.
  const std::vector<latency_row> rows{{"a", 1, sm_count{8}, from_us(1000)},
                                      {"a", 1, sm_count{16}, from_us(1000)},
                                      {"a", 1, sm_count{24}, from_us(1000 / 1.5)}};
  const latency_table t(rows);
  const std::vector<gpu_shape> two(2, {sm_count{36}, sm_count{8}});
  const model_demand all{0, 4999, from_us(2000)};
  const planning_result said = exact_two_partition_planner{}.solve(t, std::span(&all, 1), two);
  CHECK(said.bound == doctest::Approx(5000.0 / 4999).epsilon(1e-5));
  REQUIRE(said.plan);
  CHECK(said.plan->gpulets.size() == 4);
  const model_demand more{0, 5001, from_us(2000)};
  const planning_result none = exact_two_partition_planner{}.solve(t, std::span(&more, 1), two);
  CHECK(none.status == feasibility::infeasible);
  CHECK(exact_planner{}.solve(t, std::span(&more, 1), two).status == feasibility::feasible);
}

TEST_CASE("exact has a plan where any planner has, bounded search where elastic has") {
  std::mt19937_64 random(32);
  int more = 0, none = 0;
  for (int i = 0; i < (testing::sanitized ? 200 : 1000); ++i) {
    CAPTURE(i);
    const std::size_t models = 1 + random() % 6;
    const latency_table t = random_table(random, models, {8, 16, 32, 68}, 8);
    std::vector<gpu_shape> shapes(1 + random() % 3, {sm_count{68}, sm_count{8}});
    if (random() % 2 == 0) shapes.push_back({sm_count{32}, sm_count{8}});
    std::vector<model_demand> demands;
    for (std::size_t m = 0; m < models; ++m)
      demands.push_back(
          {m, 1 + static_cast<double>(random() % 40000),
           t.latency(m, 1, sm_count{68}) * static_cast<duration::rep>(2 + random() % 12)});
    const auto has_plan = [&](const auto& planner) {
      const auto plan = planner.plan(t, demands, shapes);
      if (!plan) return false;
      const auto faults = faults_of(*plan, demands, t, shapes);
      REQUIRE_MESSAGE(faults.empty(), faults.front());
      return true;
    };
    const bool elastic = has_plan(elastic_planner{});
    const bool other =
        elastic || has_plan(every_cut_planner{}) || has_plan(squishy_bin_packing_planner{});
    const planning_result two = exact_two_partition_planner{}.solve(t, demands, shapes);
    REQUIRE(
        (two.plan || !(has_plan(every_cut_planner{}) || has_plan(squishy_bin_packing_planner{}))));
    const bool best = has_plan(bounded_search_planner{});
    const planning_result ideal = exact_planner{}.solve(t, demands, shapes);
    REQUIRE((best || !elastic));
    REQUIRE((ideal.plan || !(other || best || two.plan)));
    REQUIRE(ideal.plan.has_value() == (ideal.status == feasibility::feasible));
    more += ideal.plan && !other;
    none += ideal.status == feasibility::infeasible;
  }
  CHECK(more > (testing::sanitized ? 0 : 3));
  CHECK(none > (testing::sanitized ? 5 : 30));
}

TEST_CASE("candidates that fit the pool of GPUs but no single GPU are replaced") {
  // Three groups are the best size: 3 + 3 + 2 would do 9200 a second, two GPUs of 4 do 9000.
  const std::vector<latency_row> rows{{"a", 1, sm_count{8}, from_us(1000)},
                                      {"a", 1, sm_count{16}, from_us(1000 / 2.2)},
                                      {"a", 1, sm_count{24}, from_us(1000 / 3.5)},
                                      {"a", 1, sm_count{32}, from_us(1000 / 4.4)}};
  const latency_table t(rows);
  const std::vector<gpu_shape> two(2, {sm_count{32}, sm_count{8}});
  const model_demand all{0, 8999, from_us(2000)};
  const planning_result said = exact_planner{}.solve(t, std::span(&all, 1), two);
  REQUIRE(said.plan);
  CHECK(said.plan->gpulets.size() == 4);
  const model_demand more{0, 9001, from_us(2000)};
  CHECK(exact_planner{}.solve(t, std::span(&more, 1), two).status == feasibility::infeasible);
}

TEST_CASE("GPUs of three and four shapes: exact agrees with exhaustive enumeration") {
  std::mt19937_64 random(91);
  int served = 0;
  for (int i = 0; i < 100; ++i) {
    CAPTURE(i);
    const latency_table t = random_table(random, 2, {8, 16, 24}, 4);
    std::vector<gpu_shape> shapes{
        {sm_count{28}, sm_count{8}}, {sm_count{24}, sm_count{8}}, {sm_count{16}, sm_count{8}}};
    if (random() % 2 == 0) shapes.push_back({sm_count{20}, sm_count{8}});
    std::vector<model_demand> demands;
    for (std::size_t m = 0; m < 2; ++m)
      demands.push_back(
          {m, 1 + static_cast<double>(random() % 1000),
           t.latency(m, 1, sm_count{24}) * static_cast<duration::rep>(2 + random() % 8)});
    const double most = every_plan(t, demands, shapes).max_scale();
    if (most == 0) continue;
    ++served;
    for (const double part : {0.5, 0.9999, 1.0001, 1.5}) {
      CAPTURE(part);
      std::vector<model_demand> scaled = demands;
      for (model_demand& d : scaled) d.rate *= most * part;
      const planning_result said = exact_planner{}.solve(t, scaled, shapes);
      REQUIRE(said.status == (part < 1 ? feasibility::feasible : feasibility::infeasible));
      REQUIRE((!said.plan || faults_of(*said.plan, scaled, t, shapes).empty()));
    }
  }
  CHECK(served > 80);
}

TEST_CASE("GPUs of more than four shapes: exact returns what others find or the bound proves") {
  std::mt19937_64 random(34);
  const latency_table t = random_table(random, 2, {8, 16, 32}, 4);
  std::vector<gpu_shape> five;
  for (const std::uint32_t sms : {28u, 32u, 16u, 24u, 20u})
    five.push_back({sm_count{sms}, sm_count{8}});
  std::vector<model_demand> demands;
  for (std::size_t m = 0; m < 2; ++m) demands.push_back({m, 1, 8 * t.latency(m, 1, sm_count{32})});
  const double most = exact_planner{}.solve(t, demands, five).bound;
  for (const double part : {0.3, 0.999, 1.001}) {
    std::vector<model_demand> scaled = demands;
    for (model_demand& d : scaled) d.rate *= most * part;
    const planning_result said = exact_planner{}.solve(t, scaled, five);
    CHECK(said.status == (part < 0.5 ? feasibility::feasible
                          : part < 1 ? feasibility::unknown
                                     : feasibility::infeasible));
    CHECK((!said.plan || faults_of(*said.plan, scaled, t, five).empty()));
  }
}

TEST_CASE("a search that ended and proves nothing was not cut short") {
  // Two models on one GPU, which serves both without interference. Nothing is proven of the
  // slow-downs of a model of interference that is not summed.
  const std::vector<latency_row> rows{{"a", 1, sm_count{8}, from_us(1000)},
                                      {"a", 1, sm_count{16}, from_us(1000)},
                                      {"b", 1, sm_count{8}, from_us(1000)},
                                      {"b", 1, sm_count{16}, from_us(1000)}};
  const latency_table t(rows);
  const std::vector<gpu_shape> one{{sm_count{16}, sm_count{8}}};
  const std::vector<model_demand> demands{{0, 900, from_us(2000)}, {1, 900, from_us(2000)}};
  const auto beside = [](std::span<const gpulet> all, std::size_t which, std::size_t) {
    for (std::size_t i = 0; i < all.size(); ++i)
      if (i != which && !all[i].portions.empty()) return 1.5;
    return 1.0;
  };
  for (const planning_result& said :
       {exact_planner{}.solve(t, demands, one, beside),
        exact_two_partition_planner{}.solve(t, demands, one, beside)}) {
    CHECK(said.status == feasibility::unknown);
    CHECK(!said.is_cut_short);
  }
}

TEST_CASE("when its budget ends, exact returns unknown") {
  std::mt19937_64 random(33);
  const latency_table t = random_table(random, 3, {8, 16, 24}, 4);
  const std::vector<gpu_shape> shapes(2, {sm_count{28}, sm_count{8}});
  std::vector<model_demand> demands;
  for (std::size_t m = 0; m < 3; ++m)
    demands.push_back({m, 100, 6 * t.latency(m, 1, sm_count{24})});
  const double most = every_plan(t, demands, shapes).max_scale();
  for (model_demand& d : demands) d.rate *= most * 1.0001;
  const planning_result said = exact_planner{}.solve(t, demands, shapes);
  CHECK(said.status == feasibility::infeasible);
  CHECK(said.bound > 1);
  const planning_result cut_short = exact_planner{search_budget{200}}.solve(t, demands, shapes);
  CHECK(cut_short.status == feasibility::unknown);
  CHECK(cut_short.is_cut_short);
  CHECK(cut_short.bound == said.bound);
  CHECK(!cut_short.plan);
}

} // namespace gsched::testing

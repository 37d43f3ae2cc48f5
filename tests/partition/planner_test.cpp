// SPDX-License-Identifier: Apache-2.0
#include "partition/random_table.hpp"
#include "sanitized.hpp"

#include <gsched/partition/bounded_search.hpp>
#include <gsched/partition/elastic.hpp>
#include <gsched/partition/every_cut.hpp>
#include <gsched/partition/exact.hpp>
#include <gsched/partition/gpulet.hpp>
#include <gsched/partition/squishy_bin_packing.hpp>
#include <gsched/partition/verify.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <tuple>
#include <vector>

namespace gsched::testing {

using namespace detail;

namespace {

using all_planners =
    std::tuple<squishy_bin_packing_planner, gpulet_planner, self_tuning_planner, every_cut_planner,
               elastic_planner, bounded_search_planner, exact_planner, exact_whole_gpu_planner,
               exact_two_partition_planner>;

/// Those that try fewer groups where they find no plan.
using searching_planners = std::tuple<elastic_planner, bounded_search_planner, exact_planner>;

/// The slow-down grows with the SMs and the batches of the neighbours.
struct crowded {
  double operator()(std::span<const gpulet> all, std::size_t which, std::size_t model) const {
    double others = 0;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (i != which)
        for (const portion& p : all[i].portions)
          others += all[i].sms.count() * (0.0005 + 0.0001 * p.batch);
    return 1 + others * static_cast<double>(model % 3);
  }
};

struct plan_question {
  latency_table table;
  std::vector<model_demand> demands;
  std::vector<gpu_shape> shapes;
};

/// Questions with and without a plan; GPUs with and without a remainder, of one or two shapes.
plan_question ask_plan(std::mt19937_64& random) {
  const std::size_t models = 1 + random() % 5;
  plan_question q{random_table(random, models, {8, 16, 32, 68}, 8), {}, {}};
  for (std::uint64_t g = 1 + random() % 3; g > 0; --g)
    q.shapes.push_back({sm_count{random() % 2 == 0 ? 68u : 32u}, sm_count{8}, random() % 2 == 0});
  for (std::size_t m = 0; m < models; ++m) {
    const double rate = random() % 6 == 0 ? 0 : 1 + static_cast<double>(random() % 40000);
    const duration least = q.table.latency(m, 1, sm_count{68});
    q.demands.push_back({m, rate, least * static_cast<duration::rep>(1 + random() % 12)});
  }
  return q;
}

template <class Planner, class Interference>
int run_questions(const Interference& beside) {
  std::mt19937_64 random(21);
  int answered = 0;
  for (int i = 0; i < 400; ++i) {
    CAPTURE(i);
    const plan_question q = ask_plan(random);
    const auto plan = Planner{}.plan(q.table, q.demands, q.shapes, beside);
    REQUIRE(plan == Planner{}.plan(q.table, q.demands, q.shapes, beside));
    if (!plan) continue;
    ++answered;
    if (Planner::name.starts_with("gpulet"))
      for (std::uint32_t gpu = 0; gpu < q.shapes.size(); ++gpu)
        REQUIRE(std::count_if(plan->gpulets.begin(), plan->gpulets.end(),
                              [&](const gpulet& g) { return g.gpu == gpu; }) <= 2);
    const auto faults = faults_of(*plan, q.demands, q.table, q.shapes, beside);
    REQUIRE_MESSAGE(faults.empty(), faults.front());
    for (const gpulet& g : plan->gpulets)
      for (const portion& p : g.portions) REQUIRE(p.rate > 0);
  }
  return answered;
}

} // namespace

TEST_CASE_TEMPLATE_DEFINE("N1, N2: plans have no fault and are deterministic", P, sound) {
  CHECK(run_questions<P>(no_interference{}) > 40);
  CHECK(run_questions<P>(crowded{}) > 40);
}
TEST_CASE_TEMPLATE_APPLY(sound, all_planners);

TEST_CASE_TEMPLATE_DEFINE("N3, N4: zero rates need no partition, and too high rates have no plan",
                          P, hopeless) {
  std::mt19937_64 random(22);
  const latency_table t = random_table(random, 2, {8, 32}, 4);
  const std::vector<gpu_shape> two(2, {sm_count{32}, sm_count{8}});
  const duration slo = 10 * t.latency(1, 4, sm_count{8});
  CHECK(P{}.plan(t, std::vector<model_demand>{}, two) == partition_plan{});
  CHECK(P{}.plan(t, std::vector<model_demand>{}, std::vector<gpu_shape>{}) == partition_plan{});
  const std::vector<model_demand> none{{0, 0, slo}, {1, 0, slo}};
  CHECK(P{}.plan(t, none, two) == partition_plan{});
  const std::vector<model_demand> some{{0, 0, slo}, {1, 10, slo}};
  const auto plan = P{}.plan(t, some, two);
  REQUIRE(plan);
  CHECK(plan->gpulets.size() == 1);
  CHECK(!P{}.plan(t, some, std::vector<gpu_shape>{}));
  const std::vector<model_demand> too_much{{0, 1e9, slo}, {1, 1e9, slo}};
  CHECK(!P{}.plan(t, too_much, two));
  // The capacity of two GPUs, and a little more.
  const double most = capacity_of(t, 0, sm_count{32}, slo).rate;
  const std::vector<model_demand> full{{0, 2 * most, slo}};
  CHECK((P::name != "sbp" || P{}.plan(t, full, two)));
  const std::vector<model_demand> over{{0, 2.01 * most, slo}};
  CHECK((P::name != "sbp" || !P{}.plan(t, over, two)));
}
TEST_CASE_TEMPLATE_APPLY(hopeless, all_planners);

TEST_CASE_TEMPLATE_DEFINE("what has a plan without the last groups has one with them", P, grown) {
  std::mt19937_64 random(23);
  int plans = 0;
  for (int i = 0; i < (testing::sanitized ? 40 : 200); ++i) {
    CAPTURE(i);
    const std::size_t models = 2 + random() % 4;
    const latency_table t = random_table(random, models, {8, 16, 32, 68}, 8);
    std::vector<gpu_shape> all(1 + random() % 2, {sm_count{68}, sm_count{8}, random() % 2 == 0});
    std::vector<model_demand> demands;
    double whole = 0; // GPUs that the rates fill
    for (std::size_t m = 0; m < models; ++m) {
      const duration slo = t.latency(m, 1, sm_count{68}) * static_cast<int>(3 + random() % 9);
      const double part = 0.1 + static_cast<double>(random() % 100) / 100;
      demands.push_back({m, part * capacity_of(t, m, sm_count{68}, slo).rate, slo});
      whole += part;
    }
    for (model_demand& d : demands) d.rate *= static_cast<double>(all.size()) / whole;
    for (int more = 0; more < 10; ++more) {
      CAPTURE(more);
      std::vector<gpu_shape> fewer = all;
      REQUIRE(try_drop_last_groups(fewer));
      if (const auto plan = P{}.plan(t, demands, fewer, crowded{})) {
        ++plans;
        REQUIRE(faults_of(*plan, demands, t, all, crowded{}).empty());
        REQUIRE(P{}.plan(t, demands, all, crowded{}));
      }
      for (model_demand& d : demands) d.rate *= 1.05;
    }
  }
  MESSAGE(P::name << ": " << plans);
  CHECK(plans > 100);
}
TEST_CASE_TEMPLATE_APPLY(grown, searching_planners);

TEST_CASE("models that do not scale fit a GPU by partitions, not by time sharing alone") {
  // Each batch takes 1 ms on any number of SMs, and the SLO is 2 ms.
  std::vector<latency_row> rows;
  for (const char* m : {"a", "b", "c", "d"})
    for (const std::uint32_t s : {8u, 32u}) rows.push_back({m, 1, sm_count{s}, from_us(1000)});
  const latency_table t(rows);
  const std::vector<gpu_shape> one{{sm_count{32}, sm_count{8}}};
  std::vector<model_demand> demands;
  for (std::size_t m = 0; m < 4; ++m) demands.push_back({m, 900, from_us(2000)});
  CHECK(!squishy_bin_packing_planner{}.plan(t, demands, one));
  const auto plan = elastic_planner{}.plan(t, demands, one);
  REQUIRE(plan);
  CHECK(plan->gpulets.size() == 4);
  CHECK(!gpulet_planner{}.plan(t, demands, one)); // two partitions a GPU
}

TEST_CASE("time sharing needs one partition where self-tuning needs one for each model") {
  std::vector<latency_row> rows;
  for (const char* m : {"a", "b", "c"})
    for (const std::uint32_t s : {8u, 16u}) rows.push_back({m, 1, sm_count{s}, from_us(100)});
  const latency_table t(rows);
  const std::vector<gpu_shape> one{{sm_count{16}, sm_count{8}}};
  const std::vector<model_demand> demands{
      {0, 300, from_us(5000)}, {1, 200, from_us(5000)}, {2, 100, from_us(5000)}};
  for (const auto& plan :
       {elastic_planner{}.plan(t, demands, one), gpulet_planner{}.plan(t, demands, one)}) {
    REQUIRE(plan);
    CHECK(plan->gpulets.size() == 1);
    CHECK(plan->gpulets[0].portions.size() == 3);
  }
  CHECK(!self_tuning_planner{}.plan(t, demands, one));
  CHECK(squishy_bin_packing_planner{}.plan(t, demands, one));
}

TEST_CASE("the last group has the remainder of the SMs") {
  std::vector<latency_row> rows;
  for (const char* m : {"a", "b"}) rows.push_back({m, 1, sm_count{8}, from_us(1000)});
  const latency_table t(rows);
  const std::vector<gpu_shape> one{{sm_count{20}, sm_count{8}}};
  const std::vector<model_demand> demands{{0, 900, from_us(2000)}, {1, 900, from_us(2000)}};
  const auto plan = self_tuning_planner{}.plan(t, demands, one);
  REQUIRE(plan);
  REQUIRE(plan->gpulets.size() == 2);
  CHECK(plan->gpulets[0].sms == sm_count{8});
  CHECK(plan->gpulets[1].sms == sm_count{12});
  // Not by itself: two models need three groups then, and the second one has the last.
  const std::vector<gpu_shape> not_alone{{sm_count{20}, sm_count{8}, false}};
  CHECK(!self_tuning_planner{}.plan(t, demands, not_alone));
  CHECK(!elastic_planner{}.plan(t, demands, not_alone));
  CHECK(exact_planner{}.solve(t, demands, not_alone).status == feasibility::infeasible);
  const std::vector<gpu_shape> three{{sm_count{28}, sm_count{8}, false}};
  const auto all = elastic_planner{}.plan(t, demands, three);
  REQUIRE(all);
  CHECK(faults_of(*all, demands, t, three).empty());
}

} // namespace gsched::testing

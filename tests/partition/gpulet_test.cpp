// SPDX-License-Identifier: Apache-2.0
#include "partition/random_table.hpp"

#include <gsched/partition/every_cut.hpp>
#include <gsched/partition/exact.hpp>
#include <gsched/partition/gpulet.hpp>
#include <gsched/partition/verify.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace gsched::testing {
namespace {

constexpr double hardly_any = 1e-3; // requests a second

/// Models that serve `rates` requests a second on 1, 2, ... groups of 8 SMs, in batches of one.
latency_table table_of(const std::vector<std::vector<double>>& rates) {
  std::vector<latency_row> rows;
  for (std::size_t m = 0; m < rates.size(); ++m)
    for (std::size_t n = 0; n < rates[m].size(); ++n)
      rows.push_back({std::string(1, static_cast<char>('a' + m)), 1,
                      sm_count{static_cast<std::uint32_t>(8 * (n + 1))},
                      from_us(1e6 / rates[m][n])});
  return latency_table(rows);
}

constexpr duration no_hurry = from_us(1e9);

/// Every batch takes that much longer beside another partition.
struct slower_beside {
  double factor = 1;
  double operator()(std::span<const gpulet> all, std::size_t, std::size_t) const {
    return all.size() > 1 ? factor : 1;
  }
};

std::vector<std::uint32_t> sizes_of(const partition_plan& p) {
  std::vector<std::uint32_t> all;
  for (const gpulet& g : p.gpulets) all.push_back(g.sms.count());
  return all;
}

} // namespace

// Lines are those of algorithm 1. Without sharing in time, partitions show lines 3 to 32 alone.

TEST_CASE("line 3: models come by falling rate") {
  const latency_table t = table_of({{1000, 1001}, {1000, 1001}});
  const std::vector<gpu_shape> one{{sm_count{16}, sm_count{8}}};
  const std::vector<model_demand> d{{0, 100, no_hurry}, {1, 900, no_hurry}};
  const auto plan = self_tuning_planner{}.plan(t, d, one);
  REQUIRE(plan);
  REQUIRE(plan->gpulets.size() == 2);
  CHECK(plan->gpulets[0].portions[0].model == 1);
}

TEST_CASE("lines 9 to 11: the size at the knee, or the smallest that serves what is left") {
  // The curve bends most at three groups.
  const latency_table t = table_of({{100, 200, 300, 310, 320}});
  const std::vector<gpu_shape> one{{sm_count{40}, sm_count{8}}};
  const auto sizes = [&](double rate) {
    const std::vector<model_demand> d{{0, rate, no_hurry}};
    const auto plan = gpulet_planner{}.plan(t, d, one);
    REQUIRE((!plan || faults_of(*plan, d, t, one).empty()));
    return plan ? sizes_of(*plan) : std::vector<std::uint32_t>{};
  };
  CHECK(sizes(150) == std::vector<std::uint32_t>{16});
  CHECK(sizes(290) == std::vector<std::uint32_t>{24});
  // 315 would fit four groups, but the knee is taken first; the rest of the GPU is taken whole.
  // Line 10 is for the 15 that are left then: 315 again would need three groups more.
  CHECK(sizes(315) == std::vector<std::uint32_t>{24, 16});
  CHECK(sizes(501).empty()); // a GPU holds two partitions
  // A curve that bends nowhere downwards has its knee at the whole GPU.
  const latency_table straight = table_of({{100, 200, 300, 400, 500}});
  const std::vector<model_demand> d{{0, 450, no_hurry}};
  const auto plan = gpulet_planner{}.plan(straight, d, one);
  REQUIRE(plan);
  CHECK(sizes_of(*plan) == std::vector<std::uint32_t>{40});
}

TEST_CASE("line 10 is without int_f, and line 15 counts the rate that is left with it") {
  // a has two groups of three; b needs one group of the profile, which serves less beside a.
  const latency_table t = table_of({{1000, 2000, 3000}, {1000, 2000, 3000}});
  const std::vector<gpu_shape> two(2, {sm_count{24}, sm_count{8}});
  const std::vector<model_demand> d{{0, 1700, no_hurry}, {1, 950, no_hurry}};
  const slower_beside beside{1.1};
  const auto plan = self_tuning_planner{}.plan(t, d, two, beside);
  REQUIRE(plan);
  CHECK(faults_of(*plan, d, t, two, beside).empty());
  REQUIRE(sizes_of(*plan) == std::vector<std::uint32_t>{16, 8, 8});
  CHECK(plan->gpulets[1].gpu == 0);
  CHECK(plan->gpulets[1].portions[0].rate == doctest::Approx(1000 / 1.1).epsilon(1e-4));
  CHECK(plan->gpulets[2].gpu == 1);
}

TEST_CASE("lines 20 to 26: the smallest remaining partition that is large enough, and whole") {
  // a has 3 of 5 groups, b then 4 of the other GPU's, c fits the rest of the first one.
  const latency_table t =
      table_of({{1, 2, 1000, 1001, 1002}, {1, 2, 3, 800, 801}, {600, 601, 602, 603, 604}});
  const std::vector<gpu_shape> two(2, {sm_count{40}, sm_count{8}});
  const std::vector<model_demand> d{{0, 900, no_hurry}, {1, 700, no_hurry}, {2, 500, no_hurry}};
  const auto plan = self_tuning_planner{}.plan(t, d, two);
  REQUIRE(plan);
  REQUIRE(plan->gpulets.size() == 3);
  CHECK(faults_of(*plan, d, t, two).empty());
  CHECK(plan->gpulets[0].sms == sm_count{24});
  CHECK(plan->gpulets[1].sms == sm_count{32}); // of GPU 1
  CHECK(plan->gpulets[2].sms == sm_count{8});  // the rest of GPU 1, which is smaller
  CHECK(plan->gpulets[2].gpu == 1);
}

TEST_CASE("line 22: a remaining partition below the ideal size is passed over") {
  const latency_table t = table_of({{1, 1000, 1001}, {1, 1000, 1001}});
  const std::vector<gpu_shape> two(2, {sm_count{24}, sm_count{8}});
  const std::vector<model_demand> d{{0, 900, no_hurry}, {1, 800, no_hurry}};
  const auto plan = self_tuning_planner{}.plan(t, d, two);
  REQUIRE(plan);
  CHECK(sizes_of(*plan) == std::vector<std::uint32_t>{16, 16}); // of both GPUs
  CHECK(!self_tuning_planner{}.plan(t, d, std::span(two).first(1)));
}

TEST_CASE("lines 27 and 28: the largest batch of the profile, and no smaller one with int_f") {
  // b runs three requests in 300 us alone, and in 330 beside a.
  std::vector<latency_row> rows;
  for (const std::uint32_t sms : {8u, 16u}) {
    rows.push_back({"a", 1, sm_count{sms}, from_us(10)});
    for (const std::uint32_t batch : {1u, 2u, 3u})
      rows.push_back({"b", batch, sm_count{sms}, from_us(100.0 * batch)});
  }
  const latency_table t(rows);
  const std::vector<gpu_shape> two(2, {sm_count{16}, sm_count{8}});
  const std::span<const gpu_shape> one = std::span(two).first(1);
  const slower_beside beside{1.1};
  const auto gpu_of_b = [&](duration slo, std::span<const gpu_shape> gpus) {
    const std::vector<model_demand> d{{0, 2000, no_hurry}, {1, 1000, slo}};
    const auto plan = self_tuning_planner{}.plan(t, d, gpus, beside);
    REQUIRE((!plan || faults_of(*plan, d, t, gpus, beside).empty()));
    return plan ? static_cast<int>(plan->gpulets.back().gpu) : -1;
  };
  CHECK(gpu_of_b(from_us(331), one) == 0);
  CHECK(gpu_of_b(from_us(320), one) == -1); // though a cycle and a batch of one take 220
  CHECK(gpu_of_b(from_us(320), two) == 1);  // the next remaining partition, which is alone
  CHECK(gpu_of_b(from_us(299), one) == 0);  // two requests are the most, alone too
}

TEST_CASE("line 28: int_f is of the partitions that are there, not of those that may come") {
  const latency_table t = table_of({{1000, 1000}, {1000, 1000}});
  const std::vector<gpu_shape> two(2, {sm_count{16}, sm_count{8}});
  const slower_beside beside{1.5};
  const auto gpus_of = [&](double first, double second) {
    const std::vector<model_demand> d{{0, first, no_hurry}, {1, second, no_hurry}};
    const auto plan = self_tuning_planner{}.plan(t, d, two, beside);
    REQUIRE(plan);
    REQUIRE(faults_of(*plan, d, t, two, beside).empty());
    std::vector<std::uint32_t> gpus;
    for (const gpulet& g : plan->gpulets) gpus.push_back(g.gpu);
    return gpus;
  };
  // a gets all that one group serves alone, and then nothing fits beside it.
  CHECK(gpus_of(999, 100) == std::vector<std::uint32_t>{0, 1});
  CHECK(gpus_of(600, 100) == std::vector<std::uint32_t>{0, 0});
  CHECK(gpus_of(660, 659) == std::vector<std::uint32_t>{0, 0}); // 1000 / 1.5 each
  CHECK(gpus_of(670, 100) == std::vector<std::uint32_t>{0, 1});
}

TEST_CASE("lines 33 to 37: a partition that can share another in time is reverted") {
  const latency_table t = table_of({{1000, 1001, 1002}, {1000, 1001, 1002}, {1000, 1001, 1002}});
  const std::vector<gpu_shape> one{{sm_count{24}, sm_count{8}}};
  const std::vector<model_demand> d{{0, 300, no_hurry}, {1, 200, no_hurry}, {2, 100, no_hurry}};
  const auto plan = gpulet_planner{}.plan(t, d, one);
  REQUIRE(plan);
  REQUIRE(plan->gpulets.size() == 1);
  CHECK(plan->gpulets[0].sms == sm_count{8});
  CHECK(plan->gpulets[0].portions.size() == 3);
  CHECK(!self_tuning_planner{}.plan(t, d, one)); // two of three models have a partition
  // Without a remaining partition for the new model nothing is merged: line 22 finds none.
  const std::vector<model_demand> full{
      {0, 950, no_hurry}, {1, 940, no_hurry}, {2, hardly_any, no_hurry}};
  CHECK(!gpulet_planner{}.plan(t, full, one));
}

TEST_CASE(
    "lines 33 to 37: the first allocated partition that can be shared, and no split is left") {
  const latency_table t = table_of({{100, 200}, {1000, 1000}, {100, 200}});
  const std::vector<gpu_shape> two(2, {sm_count{16}, sm_count{8}});
  // a has GPU 0; b splits GPU 1 and then shares a's partition; c needs all of GPU 1.
  const std::vector<model_demand> d{{0, 150, no_hurry}, {1, 149, no_hurry}, {2, 148, no_hurry}};
  const auto plan = gpulet_planner{}.plan(t, d, two);
  REQUIRE(plan);
  REQUIRE(sizes_of(*plan) == std::vector<std::uint32_t>{16, 16});
  CHECK(plan->gpulets[0].portions.size() == 2);
  CHECK(!self_tuning_planner{}.plan(t, d, two));
  // Both partitions can be shared, by a third model that comes last.
  const latency_table flat = table_of({{1000, 1000}, {100, 200}, {1000, 1000}});
  const std::vector<model_demand> e{{0, 160, no_hurry}, {1, 155, no_hurry}, {2, 10, no_hurry}};
  const std::vector<gpu_shape> three(3, {sm_count{16}, sm_count{8}});
  const auto shared = gpulet_planner{}.plan(flat, e, three);
  REQUIRE(shared);
  CHECK(shared->gpulets[0].portions.size() == 2); // of the first, not the emptier one
  CHECK(shared->gpulets[0].portions[1].model == 2);
}

TEST_CASE(
    "gpulet has at most two partitions a GPU, and its models have no fault under interference") {
  std::mt19937_64 random(41);
  int plans = 0, shared = 0, split = 0;
  const auto beside = [](std::span<const gpulet> all, std::size_t which, std::size_t) {
    double slower = 1;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (i != which) slower += all[i].sms.count() * 0.001;
    return slower;
  };
  for (int i = 0; i < 300; ++i) {
    const std::size_t models = 1 + random() % 5;
    const latency_table t = random_table(random, models, {8, 16, 32, 68}, 8);
    const std::vector<gpu_shape> gpus(1 + random() % 3, {sm_count{68}, sm_count{8}});
    std::vector<model_demand> d;
    for (std::size_t m = 0; m < models; ++m)
      d.push_back({m, 1 + static_cast<double>(random() % 20000),
                   t.latency(m, 1, sm_count{68}) * static_cast<duration::rep>(2 + random() % 10)});
    const auto plan = gpulet_planner{}.plan(t, d, gpus, beside);
    if (!plan) continue;
    ++plans;
    const auto faults = faults_of(*plan, d, t, gpus, beside);
    REQUIRE_MESSAGE(faults.empty(), faults.front());
    for (std::uint32_t g = 0; g < gpus.size(); ++g) {
      const auto on = std::count_if(plan->gpulets.begin(), plan->gpulets.end(),
                                    [&](const gpulet& l) { return l.gpu == g; });
      REQUIRE(on <= 2);
      split += on == 2;
    }
    for (const gpulet& l : plan->gpulets) shared += l.portions.size() > 1;
  }
  CHECK(plans > 50);
  CHECK(shared > 20);
  CHECK(split > 20);
}

TEST_CASE("gpulet_cuts fills each cut greedily, and has a plan where gpulet has none") {
  // The knee is at one group, which leaves three groups to the rest of a's rate.
  const std::vector<double> curve{100, 120, 140, 160};
  const latency_table t = table_of({curve, curve});
  const std::vector<gpu_shape> one{{sm_count{32}, sm_count{8}}};
  const auto plans = [&](double a, double b) {
    const std::vector<model_demand> d{{0, a, no_hurry}, {1, b, no_hurry}};
    REQUIRE(!gpulet_planner{}.plan(t, d, one));
    const auto plan = every_cut_planner{}.plan(t, d, one);
    REQUIRE((!plan || faults_of(*plan, d, t, one).empty()));
    return plan ? sizes_of(*plan) : std::vector<std::uint32_t>{};
  };
  CHECK(plans(119, 110) == std::vector<std::uint32_t>{16, 16});
  CHECK(plans(122, 110).empty());
  // Greedy: a takes the smallest partition of its ideal size. b needs all of the larger one.
  const std::vector<model_demand> d{{0, 139, no_hurry}, {1, 99, no_hurry}};
  CHECK(!every_cut_planner{}.plan(t, d, one));
  CHECK(exact_two_partition_planner{}.plan(t, d, one));
}

TEST_CASE("gpulet_cuts ends where GPUs have too many cuts to try all") {
  const std::vector<double> curve{100, 120, 140, 160, 180, 200, 220, 240};
  const latency_table t = table_of({curve, curve});
  const std::vector<gpu_shape> many(40, {sm_count{64}, sm_count{8}});
  const std::vector<model_demand> d{{0, 7000, no_hurry}, {1, 6900, no_hurry}};
  CHECK(!every_cut_planner{}.plan(t, d, many));
}

} // namespace gsched::testing

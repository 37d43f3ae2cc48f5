// SPDX-License-Identifier: Apache-2.0
#include "partition/random_table.hpp"

#include <gsched/partition/gpulet.hpp>
#include <gsched/partition/verify.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <random>
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

std::vector<std::uint32_t> sizes_of(const partition_plan& p) {
  std::vector<std::uint32_t> all;
  for (const gpulet& g : p.gpulets) all.push_back(g.sms.count());
  return all;
}

} // namespace

TEST_CASE("a partition has the size at the knee, or the smallest that serves the rate") {
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
  CHECK(sizes(315) == std::vector<std::uint32_t>{24, 16});
  CHECK(sizes(501).empty()); // a GPU holds two partitions
  // A curve that bends nowhere downwards has its knee at the whole GPU.
  const latency_table straight = table_of({{100, 200, 300, 400, 500}});
  const std::vector<model_demand> d{{0, 450, no_hurry}};
  const auto plan = gpulet_planner{}.plan(straight, d, one);
  REQUIRE(plan);
  CHECK(sizes_of(*plan) == std::vector<std::uint32_t>{40});
}

TEST_CASE("the smallest remaining partition that is large enough is taken, and whole") {
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

TEST_CASE("a partition that can share another in time is reverted") {
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

} // namespace gsched::testing

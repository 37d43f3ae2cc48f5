// SPDX-License-Identifier: Apache-2.0
#include "partition/random_table.hpp"

#include <gsched/partition/elastic.hpp>
#include <gsched/partition/idle_gpus.hpp>
#include <gsched/partition/verify.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace gsched::testing {
namespace {

gpulet partition_of(std::uint32_t gpu, std::uint32_t sms, std::uint32_t region = 0) {
  return {gpu, sm_count{sms}, from_us(1000), {{0, 1, 1}}, region};
}

std::vector<std::uint32_t> gpus_of(const partition_plan& p) {
  std::vector<std::uint32_t> all;
  for (const gpulet& g : p.gpulets) all.push_back(g.gpu);
  return all;
}

} // namespace

TEST_CASE("random plans spread to all GPUs that they can, with no fault and nothing else changed") {
  std::mt19937_64 random(32);
  int plans = 0, spread_out = 0, split = 0;
  for (int i = 0; i < 300; ++i) {
    CAPTURE(i);
    const std::size_t models = 1 + random() % 4;
    const latency_table t = random_table(random, models, {8, 16, 32, 68}, 8);
    std::vector<gpu_shape> shapes;
    for (std::uint64_t g = 1 + random() % 4; g > 0; --g)
      shapes.push_back({sm_count{random() % 2 == 0 ? 68u : 32u}, sm_count{8}, random() % 2 == 0});
    std::vector<model_demand> demands;
    for (std::size_t m = 0; m < models; ++m)
      demands.push_back(
          {m, 1 + static_cast<double>(random() % 4000),
           t.latency(m, 1, sm_count{68}) * static_cast<duration::rep>(3 + random() % 9)});
    const auto plan = elastic_planner{}.plan(t, demands, shapes);
    if (!plan) continue;
    ++plans;
    const partition_plan spread = with_idle_gpus(*plan, shapes);
    REQUIRE(spread == with_idle_gpus(*plan, shapes));
    const auto faults = faults_of(spread, demands, t, shapes);
    REQUIRE_MESSAGE(faults.empty(), faults.front());
    // What moved is as it was but for its GPU. What was split off is the last.
    partition_plan back = spread;
    for (; back.gpulets.size() > plan->gpulets.size(); back.gpulets.pop_back()) {
      REQUIRE(back.gpulets.back().portions.size() == 1);
      ++split;
    }
    for (std::size_t g = 0; g < back.gpulets.size(); ++g) {
      back.gpulets[g].gpu = plan->gpulets[g].gpu;
      REQUIRE(!back.gpulets[g].portions.empty());
      if (spread.gpulets.size() > plan->gpulets.size())
        back.gpulets[g].portions = plan->gpulets[g].portions;
    }
    REQUIRE(back == *plan);
    // Where a GPU stays empty, it can make no partition that another GPU can spare, whole or a
    // model of it.
    for (std::uint32_t empty = 0; empty < shapes.size(); ++empty) {
      if (sms_of(spread, empty) > 0) continue;
      for (const std::vector<gpulet>& here : by_gpu(spread))
        for (const gpulet& g : here)
          REQUIRE(((here.size() < 2 && g.portions.size() < 2) || !shapes[empty].can_make(g.sms)));
    }
    spread_out += spread != *plan;
  }
  MESSAGE("plans " << plans << ", spread " << spread_out << ", split " << split);
  CHECK(plans > 100);
  CHECK(spread_out > 30);
  CHECK(split > 10);
}

TEST_CASE("the largest partition of the fullest GPU moves, and a region moves as one") {
  const std::vector<gpu_shape> four(4, gpu_shape{sm_count{64}, sm_count{8}});
  CHECK(gpus_of(with_idle_gpus(
            {{partition_of(0, 24), partition_of(0, 8), partition_of(1, 24), partition_of(1, 32)}},
            std::span(four).first(3))) == std::vector<std::uint32_t>{0, 0, 1, 2});
  // The region has 32 SMs, though two partitions are on them. Another GPU has a region of that
  // number.
  CHECK(
      gpus_of(with_idle_gpus({{partition_of(0, 24), partition_of(0, 32, 1), partition_of(0, 32, 1),
                               partition_of(1, 16, 1), partition_of(1, 16, 1)}},
                             four)) == std::vector<std::uint32_t>{0, 2, 2, 1, 1});
  CHECK(gpus_of(with_idle_gpus({{partition_of(3, 8)}}, four)) == std::vector<std::uint32_t>{3});
  CHECK(with_idle_gpus({}, four) == partition_plan{});
  // A GPU that cannot make the largest gets another one.
  const std::vector<gpu_shape> small{{sm_count{64}, sm_count{8}}, {sm_count{16}, sm_count{8}}};
  CHECK(gpus_of(with_idle_gpus({{partition_of(0, 24), partition_of(0, 16)}}, small)) ==
        std::vector<std::uint32_t>{0, 1});
}

TEST_CASE("models that share a partition get one each where GPUs are empty") {
  const std::vector<gpu_shape> four(4, gpu_shape{sm_count{64}, sm_count{8}});
  partition_plan plan{{partition_of(0, 24), partition_of(1, 16)}};
  plan.gpulets[0].portions = {{0, 5, 2}, {1, 9, 4}, {2, 9, 1}};
  const partition_plan spread = with_idle_gpus(plan, four);
  CHECK(gpus_of(spread) == std::vector<std::uint32_t>{0, 1, 2, 3});
  CHECK(spread.gpulets[0].portions == std::vector<portion>{{0, 5, 2}});
  CHECK(spread.gpulets[2] == gpulet{2, sm_count{24}, from_us(1000), {{1, 9, 4}}, 0});
  CHECK(spread.gpulets[3] == gpulet{3, sm_count{24}, from_us(1000), {{2, 9, 1}}, 0});
}

} // namespace gsched::testing

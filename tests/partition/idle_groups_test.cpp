// SPDX-License-Identifier: Apache-2.0
#include "partition/random_table.hpp"

#include <gsched/partition/elastic.hpp>
#include <gsched/partition/idle_groups.hpp>
#include <gsched/partition/squishy_bin_packing.hpp>
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

/// The slow-down grows with the speed of the neighbours' batches.
struct by_speed {
  const latency_table* table;
  double part = 0.02;
  double operator()(std::span<const gpulet> all, std::size_t which, std::size_t) const {
    double others = 0;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (i != which)
        for (const portion& p : all[i].portions)
          others += p.batch / to_us(table->latency(p.model, std::max(1u, p.batch), all[i].sms));
    return 1 + part * others;
  }
};

struct idle_question {
  latency_table table;
  std::vector<model_demand> demands;
  std::vector<gpu_shape> shapes;
};

idle_question ask_idle(std::mt19937_64& random) {
  const std::size_t models = 1 + random() % 4;
  idle_question q{random_table(random, models, {8, 16, 32, 68}, 8), {}, {}};
  for (std::uint64_t g = 1 + random() % 2; g > 0; --g)
    q.shapes.push_back({sm_count{random() % 2 == 0 ? 68u : 32u}, sm_count{8}, random() % 2 == 0});
  for (std::size_t m = 0; m < models; ++m) {
    const duration least = q.table.latency(m, 1, sm_count{68});
    q.demands.push_back({m, 1 + static_cast<double>(random() % 15000),
                         least * static_cast<duration::rep>(3 + random() % 9)});
  }
  return q;
}

/// The largest ratio of latency to SLO on a GPU.
template <class Interference>
double worst_of(const partition_plan& p, std::uint32_t gpu, const idle_question& q,
                const Interference& beside) {
  std::vector<gpulet> here;
  for (const gpulet& g : p.gpulets)
    if (g.gpu == gpu) here.push_back(g);
  double worst = 0;
  for (std::size_t i = 0; i < here.size(); ++i)
    for (const portion& of : here[i].portions) {
      const double slow = beside(std::span<const gpulet>(here), i, of.model);
      const duration time = planned_latency(q.table, of.model, of.batch, here[i].sms, slow);
      worst = std::max(worst, to_us(here[i].cycle + time) / to_us(q.demands[of.model].slo));
    }
  return worst;
}

template <class Interference>
void check_grown(const idle_question& q, const partition_plan& plan, const Interference& beside) {
  const partition_plan grown = with_idle_groups(plan, q.demands, q.table, q.shapes, beside);
  REQUIRE(grown == with_idle_groups(plan, q.demands, q.table, q.shapes, beside));
  const auto faults = faults_of(grown, q.demands, q.table, q.shapes, beside);
  REQUIRE_MESSAGE(faults.empty(), faults.front());
  REQUIRE(grown.gpulets.size() == plan.gpulets.size());
  for (std::size_t i = 0; i < plan.gpulets.size(); ++i) {
    const gpulet &now = grown.gpulets[i], &before = plan.gpulets[i];
    REQUIRE(now.gpu == before.gpu);
    REQUIRE(now.sms >= before.sms);
    REQUIRE(now.portions.size() == before.portions.size());
    for (std::size_t p = 0; p < now.portions.size(); ++p) {
      REQUIRE(now.portions[p].model == before.portions[p].model);
      REQUIRE(now.portions[p].rate == before.portions[p].rate);
    }
  }
  for (std::uint32_t g = 0; g < q.shapes.size(); ++g)
    REQUIRE(worst_of(grown, g, q, beside) <= worst_of(plan, g, q, beside) * (1 + 1e-12));
}

} // namespace

TEST_CASE("idle groups make partitions larger, and no promise is broken or gets worse") {
  std::mt19937_64 random(31);
  int plans = 0, larger = 0, full = 0;
  for (int i = 0; i < 300; ++i) {
    CAPTURE(i);
    const idle_question q = ask_idle(random);
    const by_speed beside{&q.table};
    if (const auto plan = elastic_planner{}.plan(q.table, q.demands, q.shapes, beside)) {
      check_grown(q, *plan, beside);
      const auto grown = with_idle_groups(*plan, q.demands, q.table, q.shapes, beside);
      ++plans;
      larger += sms_of(grown, 0) > sms_of(*plan, 0);
      full += sms_of(grown, 0) == q.shapes[0].sms.count();
    }
    if (const auto plan = elastic_planner{}.plan(q.table, q.demands, q.shapes))
      check_grown(q, *plan, no_interference{});
  }
  CHECK(plans > 60);
  CHECK(larger > plans / 4);
  CHECK(full < plans); // in some plans neighbours would be slowed too much
}

TEST_CASE("the partition with the least slack gets the idle groups, the last one its remainder") {
  // Latencies are 8,000 us over the SMs.
  std::vector<latency_row> rows;
  for (const char* m : {"a", "b"})
    for (const std::uint32_t s : {8u, 36u})
      rows.push_back({m, 1, sm_count{s}, from_us(8000.0 / s)});
  const latency_table t(rows);
  const std::vector<gpu_shape> one{{sm_count{36}, sm_count{8}}};
  const std::vector<model_demand> demands{{0, 100, from_us(2500)}, {1, 100, from_us(4000)}};
  const partition_plan plan{{{0, sm_count{8}, from_us(1000), {{1, 100, 1}}},
                             {0, sm_count{8}, from_us(1000), {{0, 100, 1}}}}};
  REQUIRE(faults_of(plan, demands, t, one).empty());
  // a: 2,000 / 2,500, then 1,000 / 2,500; b: 2,000 / 4,000, then 727 / 4,000
  const partition_plan grown = with_idle_groups(plan, demands, t, one);
  CHECK(grown.gpulets[1].sms == sm_count{16});
  CHECK(grown.gpulets[0].sms == sm_count{20});
  // A second GPU without partitions stays empty.
  const std::vector<gpu_shape> two(2, one[0]);
  CHECK(with_idle_groups(plan, demands, t, two) == grown);
  CHECK(with_idle_groups(partition_plan{}, demands, t, two) == partition_plan{});
}

TEST_CASE("groups stay idle where their use would slow a neighbour too much") {
  std::vector<latency_row> rows;
  for (const char* m : {"a", "b"})
    for (const std::uint32_t s : {8u, 32u})
      rows.push_back({m, 1, sm_count{s}, from_us(m[0] == 'a' ? 8000.0 / s : 900)});
  const latency_table t(rows);
  const std::vector<gpu_shape> one{{sm_count{32}, sm_count{8}}};
  // b has no use for more SMs. It just meets its SLO beside a on 8 SMs, or has some slack.
  const auto beside = [](std::span<const gpulet> all, std::size_t which, std::size_t) {
    return all.size() < 2 ? 1.0 : 1 + all[1 - which].sms.count() / 80.0;
  };
  for (const double slo : {1990, 2400}) {
    const std::vector<model_demand> demands{{0, 100, from_us(9000)}, {1, 100, from_us(slo)}};
    const partition_plan plan{{{0, sm_count{8}, from_us(1100), {{0, 100, 1}}},
                               {0, sm_count{8}, from_us(991), {{1, 100, 1}}}}};
    REQUIRE(faults_of(plan, demands, t, one, beside).empty());
    CHECK(with_idle_groups(plan, demands, t, one, beside) == plan);
    CHECK(with_idle_groups(plan, demands, t, one).gpulets[0].sms == sm_count{24});
  }
}

} // namespace gsched::testing

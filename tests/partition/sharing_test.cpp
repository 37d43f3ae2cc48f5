// SPDX-License-Identifier: Apache-2.0
#include <gsched/partition/contention_interference.hpp>
#include <gsched/partition/elastic.hpp>
#include <gsched/partition/exact.hpp>
#include <gsched/partition/idle_groups.hpp>
#include <gsched/partition/sharing.hpp>
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

constexpr sm_count all_sms{32};

/// Each partition on the same SMs adds `each` to the slow-down.
struct overlap {
  double each = 0.1;
  bool knows = true;

  double operator()(std::span<const gpulet> all, std::size_t which, std::size_t) const {
    double factor = 1;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (i != which && share_sms(all[i], all[which])) factor += each;
    return factor;
  }
  [[nodiscard]] bool predicts_shared_sms(std::size_t) const { return knows; }
};

latency_table table_of(std::vector<duration> latencies) {
  std::vector<latency_row> rows;
  for (std::size_t m = 0; m < latencies.size(); ++m)
    for (const std::uint32_t b : {1u, 4u})
      rows.push_back({"m" + std::to_string(m), b, all_sms, latencies[m] * (b + 7) / 8});
  return latency_table(rows);
}

std::vector<gpu_shape> whole_gpus(std::size_t n) { return {n, gpu_shape{all_sms, all_sms}}; }

/// The largest planned latency over its SLO, on one GPU.
double worst_of(const partition_plan& plan, std::span<const model_demand> demands,
                const latency_table& t, const overlap& beside) {
  double worst = 0;
  for (std::size_t i = 0; i < plan.gpulets.size(); ++i)
    for (const portion& p : plan.gpulets[i].portions) {
      const gpulet& g = plan.gpulets[i];
      const duration time_of =
          planned_latency(t, p.model, p.batch, g.sms, beside(plan.gpulets, i, p.model));
      worst = std::max(worst, to_us(g.cycle + time_of) / to_us(demands[p.model].slo));
    }
  return worst;
}

/// A graph of 20 equal kernels of 10 us alone.
profile graph_of(std::string model, std::uint32_t batch, std::uint32_t blocks,
                 std::uint32_t threads) {
  profile p;
  p.model = std::move(model);
  p.batch = batch;
  p.sms = all_sms;
  profile_operation o;
  o.work.kind = operation_kind::kernel;
  o.work.launch.grid = {blocks, 1, 1};
  o.work.launch.block = {threads, 1, 1};
  o.work.launch.registers_per_thread = 32;
  o.work.expected = from_us(10);
  for (std::uint32_t i = 0; i < 20; ++i) {
    p.operations.push_back(o);
    if (i > 0) p.operations.back().after = {i - 1};
  }
  return p;
}

} // namespace

TEST_CASE("a short and a long model share a GPU where neither cuts nor turns meet both SLOs") {
  const latency_table t = table_of({from_us(100), from_us(1000)});
  const std::vector<model_demand> d{{0, 3000, from_us(400)}, {1, 700, from_us(2500)}};
  const auto gpus = whole_gpus(1);
  const overlap mild{0.1}, hard{0.9};
  CHECK_FALSE(elastic_planner{}.plan(t, d, gpus, mild));
  CHECK_FALSE(exact_planner{}.plan(t, d, gpus, mild));
  const auto plan = sharing_planner<elastic_planner>{}.plan(t, d, gpus, mild);
  REQUIRE(plan);
  REQUIRE(plan->gpulets.size() == 2);
  CHECK(share_sms(plan->gpulets[0], plan->gpulets[1]));
  CHECK(sms_of(*plan) == 32);
  CHECK(plan->gpulets[0].cycle != plan->gpulets[1].cycle);
  CHECK(faults_of(*plan, d, t, gpus, mild).empty());
  CHECK(sharing_planner<exact_planner>{}.plan(t, d, gpus, mild) == plan);
  // Batches that slow each other as much as in turns gain nothing.
  CHECK_FALSE(sharing_planner<elastic_planner>{}.plan(t, d, gpus, hard));
  CHECK_FALSE(sharing_planner<elastic_planner>{}.plan(t, d, gpus, overlap{0.1, false}));
}

TEST_CASE("of a plan apart and one on shared SMs, that on fewer GPUs is taken, then on fewer SMs") {
  const latency_table t = table_of({from_us(100), from_us(1000)});
  const std::vector<model_demand> d{{0, 3000, from_us(400)}, {1, 700, from_us(2500)}};
  const auto two = whole_gpus(2);
  const overlap mild{0.1}, hard{0.9};
  const auto apart = elastic_planner{}.plan(t, d, two, mild);
  REQUIRE(apart);
  CHECK(sms_of(*apart) == 64);
  const auto plan = sharing_planner<elastic_planner>{}.plan(t, d, two, mild);
  REQUIRE(plan);
  CHECK(sms_of(*plan) == 32);
  CHECK(share_sms(plan->gpulets[0], plan->gpulets[1]));
  CHECK(faults_of(*plan, d, t, two, mild).empty());
  CHECK(sharing_planner<elastic_planner>{}.plan(t, d, two, hard) == apart);
}

TEST_CASE("two models share a GPU wherever the predicted slow-downs leave room for both") {
  std::mt19937_64 random(11);
  int shared = 0, sooner = 0, none = 0;
  for (int i = 0; i < 400; ++i) {
    CAPTURE(i);
    const auto time = [&] { return from_us(static_cast<double>(50 + random() % 1000)); };
    const latency_table t = table_of({time(), time()});
    const overlap beside{static_cast<double>(random() % 10) / 10};
    std::vector<model_demand> d;
    for (std::size_t m = 0; m < 2; ++m)
      d.push_back({m, 200 + static_cast<double>(random() % 3000),
                   t.latency(m, 1, all_sms) * static_cast<int>(2 + random() % 4)});
    const auto gpus = whole_gpus(1);
    bool fits = true; // each beside the other, by trying all batches
    for (const model_demand& of : d) {
      bool any = false;
      for (std::uint32_t b = 1; b <= 4; ++b) {
        const duration time_of = planned_latency(t, of.model, b, all_sms, 1 + beside.each);
        any |= 2 * time_of <= of.slo && of.rate * to_s(time_of) <= b;
        const duration longest = of.slo - time_of; // cycle
        any |= time_of <= longest && of.rate * to_s(time_of) <= b;
      }
      fits &= any;
    }
    const auto apart = elastic_planner{}.plan(t, d, gpus, beside);
    const auto plan = sharing_planner<elastic_planner>{}.plan(t, d, gpus, beside);
    REQUIRE((!plan || faults_of(*plan, d, t, gpus, beside).empty()));
    if (apart) {
      REQUIRE(plan);
      if (plan != apart) {
        REQUIRE(sms_of(*plan) == sms_of(*apart));
        REQUIRE(worst_of(*plan, d, t, beside) < worst_of(*apart, d, t, beside));
        ++sooner;
      }
    }
    if (fits) REQUIRE(plan);
    if (plan && !apart) ++shared;
    none += !plan;
  }
  MESSAGE("shared " << shared << ", sooner " << sooner << ", no plan " << none);
  CHECK(shared > 20);
  CHECK(sooner > 5);
  CHECK(none > 20);
}

TEST_CASE("plans with shared SMs have no fault, and idle groups go to a region as a whole") {
  std::mt19937_64 random(5);
  int shared = 0, grown = 0;
  for (int i = 0; i < 150; ++i) {
    CAPTURE(i);
    std::vector<latency_row> rows;
    std::vector<model_demand> d;
    for (std::size_t m = 0; m < 4; ++m) {
      const double fixed = 50 + static_cast<double>(random() % 500);
      for (const std::uint32_t s : {16u, 32u, 52u})
        for (const std::uint32_t b : {1u, 8u})
          rows.push_back(
              {"m" + std::to_string(m), b, sm_count{s}, from_us(fixed + 20.0 * b + 400.0 * b / s)});
      d.push_back({m, static_cast<double>(100 + random() % 2500),
                   from_us((fixed + 60) * (2.1 + 0.1 * static_cast<double>(random() % 12)))});
    }
    const latency_table t(rows);
    const std::vector<gpu_shape> gpus(1, gpu_shape{sm_count{52}, sm_count{16}});
    const overlap beside{0.05};
    const sharing_planner<elastic_planner> planner;
    const auto is_shared = [](const partition_plan& p) {
      return std::any_of(p.gpulets.begin(), p.gpulets.end(),
                         [](const gpulet& g) { return g.region != 0; });
    };
    if (const auto plan = planner.plan(t, d, gpus, beside)) {
      REQUIRE(faults_of(*plan, d, t, gpus, beside) == std::vector<std::string>{});
      shared += is_shared(*plan);
    }
    const std::vector<gpu_shape> small(1, gpu_shape{sm_count{16}, sm_count{16}});
    d.resize(2);
    const auto plan = planner.plan(t, d, small, beside);
    if (!plan || !is_shared(*plan)) continue;
    const partition_plan filled = with_idle_groups(*plan, d, t, gpus, beside);
    REQUIRE(faults_of(filled, d, t, gpus, beside) == std::vector<std::string>{});
    grown += sms_of(filled) > sms_of(*plan);
  }
  MESSAGE("shared " << shared << ", grown " << grown);
  CHECK(shared > 10);
  CHECK(grown > 10);
}

TEST_CASE("faults of regions are found and described in one line") {
  const latency_table t = table_of({from_us(100), from_us(1000)});
  const std::vector<model_demand> d{{0, 3000, from_us(400)}, {1, 700, from_us(2500)}};
  const auto gpus = whole_gpus(1);
  const partition_plan good =
      sharing_planner<elastic_planner>{}.plan(t, d, gpus, overlap{}).value();
  const auto first = [&](const partition_plan& p, const auto& beside) {
    const auto all = faults_of(p, d, t, gpus, beside);
    return all.empty() ? std::string() : all.front();
  };
  CHECK(first(good, overlap{}).empty());
  partition_plan apart = good;
  for (gpulet& g : apart.gpulets) g.region = 0;
  CHECK(first(apart, overlap{}) ==
        "GPU 0: 32 + 32 SMs, expected sizes that its 32 can be cut into");
  CHECK(first(good, no_interference{})
            .starts_with("GPU 0, 32 SMs: on SMs of other partitions, expected"));
  CHECK(first(good, overlap{0.1, false}).starts_with("GPU 0, 32 SMs: on SMs of other partitions"));
  CHECK(first(good, overlap{1.5}).starts_with("GPU 0, 32 SMs: "));
  partition_plan unequal = good;
  unequal.gpulets[1].sms = sm_count{16};
  CHECK(first(unequal, overlap{}).find("region 1 has 32 SMs too, expected one size") !=
        std::string::npos);
}

TEST_CASE("slow-downs on shared SMs: the kernels decide, in any order, between known batches") {
  std::vector<latency_row> rows;
  for (const char* m : {"few", "many"})
    for (const std::uint32_t b : {1u, 8u}) rows.push_back({m, b, all_sms, from_us(206)});
  const latency_table t(rows);
  solo_table metrics;
  const std::vector<profile> graphs{graph_of("few", 1, 8, 64), graph_of("few", 8, 512, 1024),
                                    graph_of("many", 1, 512, 1024)};
  const shared_sm_slowdowns slow(t, metrics, graphs, {}, limits_for(9, 0), all_sms);
  CHECK(slow.has(0));
  CHECK(slow.has(1));
  CHECK_FALSE(slow.has(2));
  using batches = std::vector<shared_batch>;
  CHECK(slow(batches{{0, 1}}, 0, all_sms) == 1);
  // Kernels of few small blocks find room beside each other; those that fill all SMs take turns.
  const double small = slow(batches{{0, 1}, {0, 1}}, 0, all_sms);
  const double large = slow(batches{{0, 8}, {1, 8}}, 0, all_sms);
  CHECK(small < 1.15);
  CHECK(large > 1.6);
  const double between = slow(batches{{0, 3}, {1, 1}}, 1, all_sms);
  const double low = slow(batches{{0, 1}, {1, 1}}, 1, all_sms);
  const double high = slow(batches{{0, 8}, {1, 1}}, 1, all_sms);
  CHECK(between > std::min(low, high));
  CHECK(between < std::max(low, high));
  CHECK(slow(batches{{1, 1}, {0, 3}}, 0, all_sms) == between);
  CHECK(slow(batches{{0, 8}, {1, 1}, {1, 1}}, 0, all_sms) > high * 1.1);

  for (const std::uint32_t b : {1u, 8u})
    for (const char* m : {"few", "many"}) metrics.add({m, b, from_us(206), 0.1, 0.1, 0.5});
  const contention_interference beside(t, metrics, {}, &slow, 0.2);
  const gpulet a{0, all_sms, {}, {{0, 1, 8}}, 1}, b{0, all_sms, {}, {{1, 1, 8}}, 1};
  const std::vector<gpulet> both{a, b};
  const std::vector<gpulet> one{a};
  CHECK(beside(one, 0, 0) == 1);
  CHECK(beside(both, 0, 0) >= 1.2 * large);
  CHECK(beside(both, 0, 0) < 1.3 * large); // and what the start of kernels costs
  std::vector<gpulet> turns = both;        // the neighbour counts with the batch that slows most
  turns[1].portions.push_back({0, 1, 1});
  CHECK(beside(turns, 0, 0) >= beside(both, 0, 0));
  const contention_interference unknown(t, metrics, {});
  CHECK_FALSE(unknown.predicts_shared_sms(0));
  CHECK_THROWS_WITH(static_cast<void>(unknown(both, 0, 0)),
                    "few on shared SMs, expected its slow-downs there");
}

TEST_CASE("what batches of a region take of an SM beyond the fit is named") {
  std::vector<latency_row> rows;
  solo_table metrics;
  std::vector<profile> graphs;
  for (const char* m : {"a", "b"}) {
    rows.push_back({m, 1, all_sms, from_us(206)});
    metrics.add({m, 1, from_us(206), 0.1, 0.1, 0.5});
    profile& p = graphs.emplace_back(graph_of(m, 1, 512, 1024));
    for (profile_operation& o : p.operations) {
      kernel_counters& c = o.counters.emplace();
      c.us = 10;
      c.sm_active = c.warps_active = 1;
      c.ipc = 3;
      c.pipes.fp64 = *m == 'a' ? 0.7 : 0.0;
    }
  }
  const latency_table t(rows);
  interference_coefficients law;
  for (double& each : law.seen.sum) each = 9;
  law.seen.graphs = 2;
  const auto beyond = [&](std::uint32_t region, std::size_t partitions = 2) {
    const shared_sm_slowdowns slow(t, metrics, graphs, law, limits_for(9, 0), all_sms);
    const contention_interference beside(t, metrics, law, &slow);
    partition_plan plan;
    for (std::size_t i = 0; i < partitions; ++i)
      plan.gpulets.push_back({0, all_sms, {}, {{i % 2, 1, 1}}, region});
    return beside.beyond_fit(plan);
  };
  CHECK(beyond(1).empty());
  CHECK(beyond(1, 3) == "graphs");
  law.seen.sum[index(resource::issue)] = 1.2;
  CHECK(beyond(1) == "issue");
  CHECK(beyond(0).empty()); // on SMs of their own
  CHECK(beyond(1, 1).empty());
  law.seen.sum[index(resource::fp64)] = 0;
  CHECK(beyond(1) == "issue, fp64");
}

} // namespace gsched::testing

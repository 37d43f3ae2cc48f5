// SPDX-License-Identifier: Apache-2.0
#include <gsched/partition/contention_interference.hpp>
#include <gsched/partition/elastic.hpp>
#include <gsched/partition/interference.hpp>
#include <gsched/partition/plan.hpp>
#include <gsched/partition/planner.hpp>
#include <gsched/partition/squishy_bin_packing.hpp>
#include <gsched/partition/verify.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace gsched::testing {
namespace {

struct scene {
  latency_table table{std::vector<latency_row>{{"a", 1, sm_count{8}, from_us(100)},
                                               {"a", 4, sm_count{8}, from_us(160)},
                                               {"a", 1, sm_count{16}, from_us(60)},
                                               {"a", 4, sm_count{16}, from_us(90)},
                                               {"b", 1, sm_count{8}, from_us(50)},
                                               {"b", 4, sm_count{8}, from_us(80)},
                                               {"b", 1, sm_count{16}, from_us(40)},
                                               {"b", 4, sm_count{16}, from_us(60)},
                                               {"unmeasured", 1, sm_count{8}, from_us(50)}}};
  solo_table metrics;
  interference_coefficients law;

  scene() {
    metrics.add({"a", 1, from_us(60), 0.2, 0.1, 0.5});
    metrics.add({"a", 4, from_us(90), 0.4, 0.2, 0.5});
    metrics.add({"b", 1, from_us(40), 0.3, 0.3, 0.5});
    metrics.add({"b", 4, from_us(60), 0.5, 0.4, 0.5});
    law.contention.l2_latency = 0.5;
    law.contention.dram_latency = 0.25;
    law.replay = {0.2, 0.3};
  }
  /// Gives both models random factors.
  void draw_factors(std::mt19937_64& random) {
    const auto any = [&] { return 0.1 + static_cast<double>(random() % 1000) / 500; };
    solo_table with;
    for (const char* model : {"a", "b"})
      for (const std::uint32_t batch : {1u, 4u}) {
        solo_metrics m = *metrics.find(model, batch);
        m.factors = {any(), any()};
        with.add(std::move(m));
      }
    metrics = with;
  }
  [[nodiscard]] contention_interference model() const { return {table, metrics, law}; }
};

gpulet part(std::uint32_t sms, std::vector<portion> portions) {
  gpulet g;
  g.sms = sm_count{sms};
  g.portions = std::move(portions);
  return g;
}

} // namespace

TEST_CASE("what the fit and the metrics have not seen is named") {
  scene s;
  s.law.seen.graphs = 3;
  s.law.seen.sum[index(resource::l2)] = 2;
  s.law.seen.sum[index(resource::dram)] = 2;
  partition_plan plan;
  for (int i = 0; i < 3; ++i) plan.gpulets.push_back(part(8, {{0, 10, 4}, {1, 10, 1}}));
  const auto beyond = [&] { return s.model().beyond_fit(plan); };
  CHECK(beyond().empty());
  plan.gpulets.push_back(part(8, {}));
  CHECK(beyond().empty()); // it has no model
  plan.gpulets.back().portions = {{1, 10, 4}};
  CHECK(beyond() == "graphs");
  plan.gpulets.back().gpu = 1;
  CHECK(beyond().empty());
  // On 8 SMs a in 4 takes 0.4 x 90 us of L2 in 160 us, b in 1 takes 0.3 x 40 in 50, and so of DRAM.
  s.law.seen.sum[index(resource::l2)] = 3 * 0.24 - 0.001;
  CHECK(beyond() == "l2");
  s.law.seen.sum[index(resource::l2)] = 3 * 0.24;
  CHECK(beyond().empty());
  s.law.seen.sum[index(resource::dram)] = 3 * 0.24 - 0.001;
  CHECK(beyond() == "dram");
  s.metrics = {};
  s.metrics.add({"a", 1, from_us(60), 0.2, 0.1, 0.5});
  s.metrics.add({"b", 1, from_us(40), 0.3, 0.3, 0.5});
  s.law.seen.sum[index(resource::dram)] = s.law.seen.sum[index(resource::l2)] = 9;
  CHECK(beyond() == "a in 4");
  plan.gpulets.front().portions[1].batch = 9; // the table has 4 at most
  CHECK(beyond() == "a in 4, b in 4");
  plan.gpulets.erase(plan.gpulets.begin(), plan.gpulets.begin() + 2);
  CHECK(beyond().empty()); // each alone on its GPU
}

TEST_CASE("I1, I2, I3: the slow-down is at least 1, 1 alone, and deterministic") {
  const scene s;
  const contention_interference model = s.model();
  const std::vector<gpulet> alone{part(16, {{0, 10, 4}, {1, 10, 4}})};
  CHECK(model(alone, 0, 0) == 1);
  CHECK(no_interference{}(alone, 0, 0) == 1);
  const std::vector<gpulet> two{part(8, {{0, 10, 4}}), part(8, {{1, 10, 1}})};
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(model(two, i, i) >= 1);
    CHECK(model(two, i, i) == model(two, i, i));
  }
}

TEST_CASE("I4: the slow-down is least beside one idle partition of one group") {
  scene s;
  std::mt19937_64 random(51);
  int more = 0;
  for (int i = 0; i < 1000; ++i) {
    CAPTURE(i);
    const auto any = [&] { return static_cast<double>(random() % 1000) / 500; };
    s.law.contention = contention_law::of({any(), any(), any(), any(), any(), any()});
    s.law.replay = {any(), any()};
    s.draw_factors(random);
    const contention_interference model = s.model();
    const auto some = [&] {
      std::vector<portion> portions;
      for (std::size_t m = 0; m < 2; ++m)
        if (random() % 2 == 0)
          portions.push_back({m, 1, static_cast<std::uint32_t>(1 + random() % 4)});
      return part(8 * static_cast<std::uint32_t>(1 + random() % 2), portions);
    };
    std::vector<gpulet> all{some(), some()};
    if (random() % 2 == 0) all.push_back(some());
    for (const portion& p : all[0].portions) {
      std::vector<gpulet> idle{all[0], part(8, {})};
      idle[0].portions = {p};
      REQUIRE(model(all, 0, p.model) >= model(idle, 0, p.model));
      more += model(all, 0, p.model) > model(idle, 0, p.model);
    }
  }
  CHECK(more > 30);
}

TEST_CASE("S1, S2: partitions add up, and the slow-down never falls with a use of the others") {
  scene s;
  std::mt19937_64 random(52);
  int more = 0;
  for (int i = 0; i < 1000; ++i) {
    CAPTURE(i);
    const auto any = [&] { return static_cast<double>(random() % 1000) / 500; };
    s.law.contention = contention_law::of({any(), any(), any(), any(), any(), any()});
    s.law.replay = {any(), any()};
    s.draw_factors(random);
    const contention_interference model = s.model();
    const mean_use b = model.use(1, 1, sm_count{16}).as_neighbour();
    mean_use others = b;
    others.add(model.use(0, 1 + random() % 4, sm_count{8}).as_neighbour());
    const auto batch = static_cast<std::uint32_t>(1 + random() % 4);
    const std::vector<gpulet> three{part(8, {{0, 10, batch}}), part(8, {{0, 10, 2}}),
                                    part(16, {{1, 10, 1}})};
    mean_use two_and_one = model.use(0, 2, sm_count{8}).as_neighbour();
    two_and_one.add(b);
    const mean_use own = model.use(0, batch, sm_count{8});
    REQUIRE(model(three, 0, 0) == model.slowdown(own, two_and_one));
    REQUIRE(model.slowdown(own, {}) == doctest::Approx(1).epsilon(1e-12));
    mean_use raised = others;
    (random() % 3 == 0 ? raised.l2 : random() % 2 == 0 ? raised.dram : raised.starts) += any();
    REQUIRE(model.slowdown(own, raised) >= model.slowdown(own, others) * (1 - 1e-12));
    more += model.slowdown(own, raised) > model.slowdown(own, others);
  }
  CHECK(more > 300);
}

TEST_CASE("uses are those of the batch on its SMs, and the most of the neighbour's portions") {
  const scene s;
  const contention_interference model = s.model();
  const double idle = 0.5 / mean_use::idle_us; // kernels a microsecond, alone on all SMs
  // a, batch 4: 36 us of L2 and 18 of DRAM in 160; b, batch 1: 12 us of both in 50.
  const mean_use a{36.0 / 160, 18.0 / 160, 1, idle * 90 / 160};
  mean_use b{12.0 / 50, 12.0 / 50, 1, idle * 40 / 50};
  const std::vector<gpulet> two{part(8, {{0, 10, 4}}), part(8, {{1, 10, 1}})};
  CHECK(model(two, 0, 0) == doctest::Approx(mean_slowdown(s.law, a, b)));
  std::vector<gpulet> three = two;
  three.push_back(two[1]);
  b.l2 *= 2;
  b.dram *= 2;
  b.starts *= 2;
  CHECK(model(three, 0, 0) == doctest::Approx(mean_slowdown(s.law, a, b)));
  // b in batches of 4 uses 30 us of L2 in 80 and a in batches of 1 starts more kernels.
  const std::vector<gpulet> shared{part(8, {{0, 10, 4}}), part(8, {{0, 1, 1}, {1, 10, 4}})};
  const mean_use both{30.0 / 80, 24.0 / 80, 1, std::max(idle * 60 / 100, idle * 60 / 80)};
  CHECK(model(shared, 0, 0) == doctest::Approx(mean_slowdown(s.law, a, both)));
}

TEST_CASE("plans with interference have no fault, and serve no more than without it") {
  const scene s;
  const contention_interference model = s.model();
  static_assert(partition_planner<elastic_planner, contention_interference>);
  const std::vector<gpu_shape> gpus(1, gpu_shape{sm_count{32}, sm_count{8}});
  std::size_t made = 0, refused = 0;
  for (double rate = 1000; rate < 100000; rate *= 1.3) {
    const std::vector<model_demand> demands{{0, rate, from_us(900)}, {1, rate, from_us(700)}};
    const auto plan = elastic_planner{}.plan(s.table, demands, gpus, model);
    if (!plan) {
      ++refused;
      continue;
    }
    ++made;
    CHECK(faults_of(*plan, demands, s.table, gpus, model).empty());
    CHECK(elastic_planner{}.plan(s.table, demands, gpus).has_value());
  }
  CHECK(made > 3);
  CHECK(refused > 1);
}

TEST_CASE("a model without solo metrics is refused in one line") {
  const scene s;
  const auto said = [&](double rate) -> std::string {
    try {
      check_metrics(std::vector<model_demand>{{0, 1, from_us(900)}, {2, rate, from_us(900)}},
                    s.table, s.metrics);
    } catch (const error& e) {
      return e.what();
    }
    return "none";
  };
  CHECK(said(1) == "unmeasured: no solo metrics, expected a row of the model");
  CHECK(said(0) == "none");
  const std::vector<gpulet> two{part(8, {{0, 10, 4}}), part(8, {{2, 10, 1}})};
  CHECK_THROWS_AS(static_cast<void>(s.model()(two, 0, 0)), error);
}

} // namespace gsched::testing

// SPDX-License-Identifier: Apache-2.0
#include "partition/random_table.hpp"

#include <gsched/partition/detail/packing/settled_cycles.hpp>
#include <gsched/partition/elastic.hpp>
#include <gsched/partition/idle_groups.hpp>
#include <gsched/partition/squishy_bin_packing.hpp>
#include <gsched/partition/verify.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
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
    REQUIRE(worst_of(grown, g, q, beside) <=
            std::max(0.5, worst_of(plan, g, q, beside) * (1 + 1e-12)));
}

/// The logarithm of the product of latency / slack over all models of GPU 0.
template <class Interference>
double closeness_of(std::span<const gpulet> here, const latency_table& t,
                    std::span<const model_demand> demands, const Interference& beside) {
  double sum = 0;
  for (std::size_t i = 0; i < here.size(); ++i)
    for (const portion& of : here[i].portions) {
      const double slow = beside(here, i, of.model);
      const double latency =
          to_us(here[i].cycle + planned_latency(t, of.model, of.batch, here[i].sms, slow));
      sum += std::log(latency / std::max(1e-3, to_us(demands[of.model].slo) - latency));
    }
  return sum;
}

/// The smallest closeness of GPU 0 with any numbers of groups added to its partitions, if no ratio
/// of latency to SLO exceeds `most`.
template <class Interference>
double least_closeness(const partition_plan& plan, const idle_question& q, double most,
                       const Interference& beside) {
  std::vector<std::vector<model_demand>> parts;
  for (const gpulet& g : plan.gpulets) {
    parts.emplace_back();
    for (const portion& p : g.portions)
      parts.back().push_back({p.model, p.rate, q.demands[p.model].slo});
  }
  double least = closeness_of(plan.gpulets, q.table, q.demands, beside);
  const auto visit = [&](const auto& self, std::vector<gpulet> here, std::size_t i) -> void {
    if (i < here.size()) {
      for (; q.shapes[0].can_make(occupied_sizes(here));
           here[i].sms = here[i].sms + q.shapes[0].group)
        self(self, here, i + 1);
      return;
    }
    const auto worst = detail::settle_cycles(q.table, here, parts, beside);
    if (worst && *worst <= most)
      least = std::min(least, closeness_of(here, q.table, q.demands, beside));
  };
  visit(visit, plan.gpulets, 0);
  return least;
}

/// A partition of 8 SMs for each model alone, on a GPU of 64; batches of one request, as rates are
/// low. Latencies are those given by SMs, and SLOs as given, in us.
template <class Latency>
idle_question apart(std::size_t models, Latency latency_us, std::span<const double> slos) {
  std::vector<latency_row> rows;
  for (std::size_t m = 0; m < models; ++m)
    for (const std::uint32_t s : {8u, 64u})
      rows.push_back({"m" + std::to_string(m), 1, sm_count{s}, from_us(latency_us(m, s))});
  idle_question q{latency_table(rows), {}, {{sm_count{64}, sm_count{8}}}};
  for (std::size_t m = 0; m < models; ++m) q.demands.push_back({m, 1, from_us(slos[m])});
  return q;
}
template <class Interference>
partition_plan smallest(const idle_question& q, const Interference& beside) {
  partition_plan plan;
  std::vector<std::vector<model_demand>> parts;
  for (const model_demand& d : q.demands) {
    plan.gpulets.push_back({0, sm_count{8}, {}, {{d.model, d.rate, 1}}});
    parts.push_back({d});
  }
  REQUIRE(detail::settle_cycles(q.table, plan.gpulets, parts, beside));
  REQUIRE(faults_of(plan, q.demands, q.table, q.shapes, beside).empty());
  return plan;
}
std::vector<std::uint32_t> planned_sizes(const partition_plan& plan) {
  std::vector<std::uint32_t> sizes;
  for (const gpulet& g : plan.gpulets) sizes.push_back(g.sms.count());
  return sizes;
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

TEST_CASE("without interference no other use of the idle groups has a smaller product") {
  std::mt19937_64 random(7);
  for (int i = 0; i < 100; ++i) {
    CAPTURE(i);
    const std::size_t models = 2 + random() % 3;
    std::vector<double> fixed, work, slos;
    for (std::size_t m = 0; m < models; ++m) {
      fixed.push_back(static_cast<double>(random() % 500));
      work.push_back(static_cast<double>(random() % 16000));
      slos.push_back((2 * (fixed[m] + work[m] / 8) + 1) *
                     (1.01 + static_cast<double>(random() % 1000) / 100));
    }
    const auto latency = [&](std::size_t m, std::uint32_t s) {
      return 0.5 + fixed[m] + work[m] / s;
    };
    const idle_question q = apart(models, latency, slos);
    const partition_plan plan = smallest(q, no_interference{});
    const partition_plan grown = with_idle_groups(plan, q.demands, q.table, q.shapes);
    REQUIRE(closeness_of(grown.gpulets, q.table, q.demands, no_interference{}) ==
            doctest::Approx(least_closeness(plan, q, 1, no_interference{})).epsilon(1e-4));
  }
}

TEST_CASE("with interference and batches the product falls nearly as far as it can") {
  std::mt19937_64 random(17);
  double fell = 0, could = 0;
  int plans = 0;
  for (int i = 0; i < 300; ++i) {
    CAPTURE(i);
    idle_question q = ask_idle(random);
    q.shapes = {{sm_count{64}, sm_count{8}}};
    const by_speed beside{&q.table};
    const auto plan = elastic_planner{}.plan(q.table, q.demands, q.shapes, beside);
    if (!plan) continue;
    const auto of = [&](const partition_plan& p) {
      return closeness_of(p.gpulets, q.table, q.demands, beside);
    };
    const double most = std::max(0.5, worst_of(*plan, 0, q, beside));
    const partition_plan grown = with_idle_groups(*plan, q.demands, q.table, q.shapes, beside);
    ++plans;
    fell += of(*plan) - of(grown);
    could += of(*plan) - least_closeness(*plan, q, most, beside);
  }
  MESSAGE("fell by " << fell << " of " << could << " in " << plans << " plans");
  CHECK(plans > 60);
  CHECK(fell > 0.95 * could);
}

TEST_CASE("a model that gains little by more SMs leaves them to one that gains much") {
  // Model 0 is the nearest to its SLO on any number of SMs.
  const auto latency = [](std::size_t m, std::uint32_t s) {
    return m == 0 ? 1000 + 800.0 / s : 32000.0 / s;
  };
  const idle_question q = apart(2, latency, std::vector<double>{6000, 100000});
  const partition_plan plan = smallest(q, no_interference{});
  CHECK(planned_sizes(with_idle_groups(plan, q.demands, q.table, q.shapes)) ==
        std::vector<std::uint32_t>{8, 56});
}

TEST_CASE("two partitions grow where one alone would slow the other too much") {
  const auto latency = [](std::size_t, std::uint32_t s) { return 8000.0 / s; };
  const auto beside = [](std::span<const gpulet> all, std::size_t which, std::size_t) {
    return 1 + all[1 - which].sms.count() / 80.0;
  };
  // 2,200 us of 2,500 as planned; beside 16 SMs 2,400, and on 16 SMs beside as many 1,200.
  const idle_question q = apart(2, latency, std::vector<double>{2500, 2500});
  const partition_plan plan = smallest(q, beside);
  CHECK(planned_sizes(with_idle_groups(plan, q.demands, q.table, q.shapes, beside)) ==
        std::vector<std::uint32_t>{32, 32});
  // With one idle group there is no room for both.
  idle_question small = q;
  small.shapes = {{sm_count{24}, sm_count{8}}};
  CHECK(with_idle_groups(plan, small.demands, small.table, small.shapes, beside) == plan);
}

TEST_CASE("the nearest to its SLO gets the first group, and the last one its remainder") {
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
  // a: 2,000 us of 2,500, then 1,000; b: 2,000 of 4,000, then 800
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
  // Where b stays below half its SLO, it may become slower.
  const std::vector<model_demand> demands{{0, 100, from_us(9000)}, {1, 100, from_us(6000)}};
  const partition_plan plan{{{0, sm_count{8}, from_us(1100), {{0, 100, 1}}},
                             {0, sm_count{8}, from_us(991), {{1, 100, 1}}}}};
  CHECK(with_idle_groups(plan, demands, t, one, beside).gpulets[0].sms == sm_count{24});
}

} // namespace gsched::testing

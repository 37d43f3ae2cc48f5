// SPDX-License-Identifier: Apache-2.0
#include "partition/random_table.hpp"
#include "sanitized.hpp"

#include <gsched/io/latency_csv.hpp>
#include <gsched/partition/bounded_search.hpp>
#include <gsched/partition/exact.hpp>
#include <gsched/partition/verify.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace gsched::testing {

using namespace detail;

namespace {

/// Each SM of a neighbour makes a batch slower.
struct beside_others {
  double operator()(std::span<const gpulet> all, std::size_t which, std::size_t) const {
    double others = 0;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (i != which) others += all[i].sms.count();
    return 1 + 0.3 * others / 132;
  }
};

latency_table shipped_table() {
  return load_latency_table(GSCHED_SOURCE_DIR "/tools/data/latency_batch_partition.csv");
}

} // namespace

TEST_CASE("the bounded search has almost every plan of the exact planner, with and without "
          "interference") {
  const latency_table t = shipped_table();
  const std::vector<gpu_shape> four(4);
  int ideal = 0, best = 0, elastic = 0, ideal_beside = 0, best_beside = 0, elastic_beside = 0;
  for (std::uint32_t i = 1; i < 1024; i += testing::sanitized ? 45 : 3) {
    std::vector<model_demand> demands;
    for (std::size_t m = 0; m < 5; ++m)
      demands.push_back({m, 4000.0 * (i >> 2 * m & 3), 2 * t.latency(m, 32, sm_count{132})});
    const auto serves = [&](const auto& planner, const auto& beside) {
      const auto plan = planner.plan(t, demands, four, beside);
      REQUIRE((!plan || faults_of(*plan, demands, t, four, beside).empty()));
      return plan.has_value();
    };
    const bool by_elastic = serves(elastic_planner{}, no_interference{});
    const bool by_best = serves(bounded_search_planner{}, no_interference{});
    REQUIRE((by_best || !by_elastic));
    const planning_result said = exact_planner{}.solve(t, demands, four);
    REQUIRE(said.status != feasibility::unknown);
    REQUIRE((said.plan || !by_best));
    elastic += by_elastic;
    best += by_best;
    ideal += said.plan.has_value();
    if (i % 4 != 1) continue; // it takes longer
    const bool beside = serves(elastic_planner{}, beside_others{});
    const bool best_too = serves(bounded_search_planner{}, beside_others{});
    REQUIRE((best_too || !beside));
    elastic_beside += beside;
    best_beside += best_too;
    ideal_beside += serves(exact_planner{{200'000, 16, 8}}, beside_others{});
  }
  MESSAGE("elastic, best, ideal: " << elastic << ", " << best << ", " << ideal << "; beside others "
                                   << elastic_beside << ", " << best_beside << ", "
                                   << ideal_beside);
  CHECK((testing::sanitized || ideal > elastic)); // few cases tell them apart
  CHECK(ideal - best <= 1);
  CHECK(best_beside > elastic_beside);
  CHECK(ideal_beside - best_beside <= 1);
}

TEST_CASE("a hundred models on 64 GPUs") {
  // The table's models several times, each time slower.
  std::vector<latency_row> rows;
  const std::vector<latency_row> measured =
      read_latency_rows(csv_table(GSCHED_SOURCE_DIR "/tools/data/latency_batch_partition.csv",
                                  {"model", "batch", "sms", "latency_us"}));
  for (int copy = 0; copy < 17; ++copy)
    for (latency_row r : measured) {
      r.model += std::to_string(copy);
      r.latency = from_us(to_us(r.latency) * (1 + 0.05 * copy));
      rows.push_back(r);
    }
  const latency_table t(rows);
  const std::vector<gpu_shape> shapes(64);
  std::mt19937_64 random(61);
  std::vector<model_demand> demands;
  for (std::size_t m = 0; m < 100; ++m) {
    const duration slo = 2 * t.latency(m, 32, sm_count{132});
    const double part = 0.1 + static_cast<double>(random() % 1000) / 1000;
    demands.push_back({m, part * capacity_of(t, m, sm_count{132}, slo).rate, slo});
  }
  const double most = bound_of(candidate_table(t, demands, shapes)).scale;
  for (const double part : {0.5, 0.93, 0.99, 1.01}) {
    if (testing::sanitized && part == 0.99) continue; // takes longest
    CAPTURE(part);
    std::vector<model_demand> scaled = demands;
    for (model_demand& d : scaled) d.rate *= most * part;
    const auto plan = bounded_search_planner{}.plan(t, scaled, shapes);
    REQUIRE((plan || part > 0.95));
    REQUIRE((!plan || part < 1));
    if (plan) CHECK(faults_of(*plan, scaled, t, shapes).empty());
    CHECK(plan == bounded_search_planner{}.plan(t, scaled, shapes));
  }
}

} // namespace gsched::testing

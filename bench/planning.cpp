// SPDX-License-Identifier: Apache-2.0
// The cost of a plan: one call of a planner, with or without a result.
//
//   plan/<planner>/cpu/ns{models=5,gpus=4} all combinations of 0, 3000, 6000 and 9000 requests a
//                                              second of five models, one after another
//   plan/<planner>/cpu/ns{models=100,gpus=64} 20 copies of them, each slower than the last, at 0.5,
//                                              0.9 and 0.99 of the rates that can be served
//
// interference=h200: the planners know how partitions slow one another down. Each plan is first
// checked by the verifier; if one is faulty, or a planner finds too few, the program ends with 1.

#include <gsched/io/latency_csv.hpp>
#include <gsched/io/solo_csv.hpp>
#include <gsched/partition/bounded_search.hpp>
#include <gsched/partition/contention_interference.hpp>
#include <gsched/partition/detail/search/rate_bound.hpp>
#include <gsched/partition/elastic.hpp>
#include <gsched/partition/exact.hpp>
#include <gsched/partition/gpulet.hpp>
#include <gsched/partition/squishy_bin_packing.hpp>
#include <gsched/partition/verify.hpp>

#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

namespace {

using namespace gsched;
using namespace gsched::detail;

const std::string data = std::string(GSCHED_SOURCE_DIR) + "/tools/data/";

struct scene {
  latency_table table;
  std::vector<gpu_shape> gpus;
  std::vector<std::vector<model_demand>> questions{};
  std::size_t fewest_plans = 0; ///< of elastic; sbp and gpulet find half, or a quarter
};

duration slo_of(const latency_table& t, std::size_t model) {
  return 2 * t.latency(model, 32, sm_count{132});
}

scene few() {
  scene s{load_latency_table(data + "latency_batch_partition.csv"), std::vector<gpu_shape>(4)};
  for (std::uint32_t i = 1; i < 1024; i += 5) {
    s.questions.emplace_back();
    for (std::size_t m = 0; m < 5; ++m)
      s.questions.back().push_back({m, 3000.0 * (i >> 2 * m & 3), slo_of(s.table, m)});
  }
  s.fewest_plans = s.questions.size() * 2 / 3;
  return s;
}

scene many() {
  const std::vector<latency_row> measured = read_latency_rows(
      csv_table(data + "latency_batch_partition.csv", {"model", "batch", "sms", "latency_us"}));
  std::vector<latency_row> rows;
  for (int copy = 0; copy < 20; ++copy)
    for (latency_row r : measured) {
      if (r.model == "resnet18") continue;
      r.model += std::to_string(copy);
      r.latency = from_us(to_us(r.latency) * (1 + 0.05 * copy));
      rows.push_back(r);
    }
  scene s{latency_table(rows), std::vector<gpu_shape>(64)};
  std::mt19937_64 random(61);
  std::vector<model_demand> demands;
  for (std::size_t m = 0; m < 100; ++m) {
    const double part = 0.1 + static_cast<double>(random() % 1000) / 1000;
    const duration slo = slo_of(s.table, m);
    demands.push_back({m, part * capacity_of(s.table, m, sm_count{132}, slo).rate, slo});
  }
  const double most = bound_of(candidate_table(s.table, demands, s.gpus)).scale;
  for (const double part : {0.5, 0.9, 0.99}) {
    s.questions.push_back(demands);
    for (model_demand& d : s.questions.back()) d.rate *= most * part;
  }
  s.fewest_plans = 2;
  return s;
}

/// The L2 and DRAM use of the models, equal for all copies.
contention_interference h200(const latency_table& t, solo_table& metrics) {
  for (const solo_metrics& row :
       read_solo_metrics(csv_table(data + "solo_metrics.csv", solo_columns())))
    for (std::size_t m = 0; m < t.size(); ++m)
      if (t.name(m) == row.model) metrics.add(row);
  return {t, metrics, {}};
}

int faults = 0;

template <class Planner, class Interference>
void add(const scene& s, const Interference& beside, const std::string& law) {
  const std::string name = "plan/" + std::string(Planner::name) +
                           "/cpu/ns{models=" + std::to_string(s.questions[0].size()) +
                           ",gpus=" + std::to_string(s.gpus.size()) + law + "}";
  std::size_t plans = 0;
  for (const std::vector<model_demand>& d : s.questions)
    if (const auto plan = Planner{}.plan(s.table, d, s.gpus, beside)) {
      ++plans;
      if (faults_of(*plan, d, s.table, s.gpus, beside).empty()) continue;
      std::fprintf(stderr, "planning: %s has a plan with a fault\n", name.c_str());
      ++faults;
    }
  const bool finds_half = Planner::name == "sbp" || Planner::name == "gpulet";
  const bool finds_few = Planner::name == "gpulet" && !law.empty();
  if (plans < s.fewest_plans / (finds_few ? 4 : finds_half ? 2 : 1)) {
    std::fprintf(stderr, "planning: %s has %zu plans, expected more\n", name.c_str(), plans);
    ++faults;
  }
  benchmark::RegisterBenchmark(
      name.c_str(),
      [&s, &beside](benchmark::State& state) {
        std::size_t i = 0;
        for (auto _ : state)
          benchmark::DoNotOptimize(
              Planner{}.plan(s.table, s.questions[i++ % s.questions.size()], s.gpus, beside));
      })
      ->Repetitions(7)
      ->ReportAggregatesOnly()
      ->MinTime(0.05);
}

} // namespace

int main(int argc, char** argv) {
  const scene five = few(), hundred = many();
  const no_interference alone;
  solo_table metrics;
  const contention_interference law = h200(five.table, metrics);
  add<elastic_planner>(five, alone, "");
  add<gpulet_planner>(five, alone, "");
  add<squishy_bin_packing_planner>(five, alone, "");
  add<bounded_search_planner>(five, alone, "");
  add<exact_planner>(five, alone, "");
  add<elastic_planner>(five, law, ",interference=h200");
  add<gpulet_planner>(five, law, ",interference=h200");
  add<bounded_search_planner>(five, law, ",interference=h200");
  add<elastic_planner>(hundred, alone, "");
  add<squishy_bin_packing_planner>(hundred, alone, "");
  if (faults > 0) return 1;

  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

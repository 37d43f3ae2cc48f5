// SPDX-License-Identifier: Apache-2.0
// What learning interference costs the loop of a plan server.
//
//   watch/cpu/ns{models=5,beside=4,all=0}  begin and end of a batch and of so many others
//                                          beside it; it alone is watched, or all of them
//   close_period/cpu/ns{models=5}          the factors of all models, after 5,000 batches
//
// `models` are copies of the shipped five, under other names. Of each five the first suffers twice
// as much from its neighbours as its metrics say; if that is not found, the program ends with 1.

#include <gsched/interference/corun_factors.hpp>
#include <gsched/io/latency_csv.hpp>
#include <gsched/io/solo_csv.hpp>
#include <gsched/partition/contention_interference.hpp>
#include <gsched/serving/learning/corun_learning.hpp>

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

using namespace gsched;

namespace {

const std::string data = std::string(GSCHED_SOURCE_DIR) + "/tools/data/";
const std::vector<std::string> five{"resnet50", "googlenet", "lenet", "ssdlite_mobilenet", "vgg16"};
constexpr double true_sensitivity = 2;

std::string name_of(std::size_t model) {
  return five[model % five.size()] + std::to_string(model / five.size());
}

latency_table table_of(std::size_t models) {
  const std::vector<latency_row> measured = read_latency_rows(
      csv_table(data + "latency_batch_partition.csv", {"model", "batch", "sms", "latency_us"}));
  std::vector<latency_row> rows;
  for (std::size_t m = 0; m < models; ++m)
    for (latency_row r : measured)
      if (r.model == five[m % five.size()]) {
        r.model = name_of(m);
        rows.push_back(r);
      }
  return latency_table(rows);
}

solo_table metrics_of(std::size_t models) {
  solo_table all;
  const std::vector<solo_metrics> measured =
      read_solo_metrics(csv_table(data + "solo_metrics.csv", solo_columns(), more_solo_columns()));
  for (std::size_t m = 0; m < models; ++m)
    for (solo_metrics row : measured)
      if (row.model == five[m % five.size()]) {
        row.model = name_of(m);
        all.add(row);
      }
  return all;
}

/// Batches of all models on 32 SMs, beside three of other models or alone.
class service {
public:
  explicit service(std::size_t models)
      : table_(table_of(models)), metrics_(metrics_of(models)), law_(table_, metrics_, {}),
        learning_(table_, law_, 1, {.between = {}}) {}

  /// A batch on partition 0, in the middle of those on the partitions from 1 to `beside`, which
  /// end with it. They are not watched, unless `all` are.
  void serve(std::size_t model, std::uint32_t batch, std::uint32_t beside, bool all = false) {
    const sm_count sms{32};
    mean_use others;
    for (std::uint32_t p = 1; p <= beside; ++p) {
      const std::size_t neighbour = random_() % table_.size();
      batch_run run{0, p, sms, neighbour, 8};
      run.region = all ? 0 : 1;
      learning_.begin(run, now_);
      others.add(law_.use(neighbour, 8, sms).as_neighbour());
    }
    mean_use own = law_.use(model, batch, sms);
    if (model % five.size() == 0) own.factors.sensitivity *= true_sensitivity;
    const double slowed = beside > 0 ? law_.slowdown(own, others) : 1;
    learning_.begin({0, 0, sms, model, batch}, now_);
    now_ += from_us(slowed * to_us(table_.latency(model, batch, sms)));
    learning_.end(0, 0, now_);
    for (std::uint32_t p = 1; p <= beside; ++p) learning_.end(0, p, now_);
  }
  void serve_period() {
    for (int i = 0; i < 5000; ++i)
      serve(random_() % table_.size(), 1u << random_() % 4, random_() % 2 == 0 ? 0 : 3);
  }
  [[nodiscard]] corun_learning& learning() noexcept { return learning_; }
  [[nodiscard]] std::size_t models() const noexcept { return table_.size(); }

private:
  latency_table table_;
  solo_table metrics_;
  contention_interference law_;
  corun_learning learning_;
  time_point now_{};
  std::mt19937_64 random_{7};
};

void watch(benchmark::State& state) {
  service s(static_cast<std::size_t>(state.range(0)));
  const auto beside = static_cast<std::uint32_t>(state.range(1));
  std::size_t i = 0;
  for (auto _ : state) s.serve(i++ % s.models(), 8, beside, state.range(2) != 0);
}

void close_period(benchmark::State& state) {
  service s(static_cast<std::size_t>(state.range(0)));
  for (int period = 0; period < 8; ++period) {
    s.serve_period();
    s.learning().close_period();
  }
  for (std::size_t m = 0; m < s.models(); m += five.size())
    if (const double found = s.learning().factors()[m].sensitivity;
        !(found > 0.75 * true_sensitivity && found < 1.25 * true_sensitivity)) {
      std::fprintf(stderr, "corun_learning: %s: found a sensitivity of %.2f, expected %.0f\n",
                   name_of(m).c_str(), found, true_sensitivity);
      std::exit(1);
    }
  for (auto _ : state) {
    state.PauseTiming();
    s.serve_period();
    state.ResumeTiming();
    s.learning().close_period();
  }
}

BENCHMARK(watch)
    ->Name("watch/cpu/ns")
    ->ArgNames({"models", "beside", "all"})
    ->ArgsProduct({{5, 50}, {1, 4, 15}, {0, 1}});
BENCHMARK(close_period)->Name("close_period/cpu/ns")->ArgName("models")->Arg(5)->Arg(20)->Arg(50);

} // namespace

BENCHMARK_MAIN();

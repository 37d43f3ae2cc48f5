// SPDX-License-Identifier: Apache-2.0
#include <gsched/trace/histogram.hpp>
#include <gsched/trace/recorder.hpp>

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

using namespace gsched;

namespace {

std::vector<duration> latencies(std::size_t n) {
  std::mt19937_64 random(1);
  std::lognormal_distribution<double> us(6.0, 2.0);
  std::vector<duration> values;
  for (std::size_t i = 0; i < n; ++i) values.push_back(from_us(us(random)));
  return values;
}

void histogram_record(benchmark::State& state) {
  const std::vector<duration> values = latencies(4096);
  auto h = std::make_unique<trace::histogram>();
  std::size_t i = 0;
  for (auto _ : state) h->record(values[i++ % values.size()]);
  if (h->count() != static_cast<std::uint64_t>(state.iterations()))
    state.SkipWithError("values were lost");
}

void histogram_percentile(benchmark::State& state) {
  auto h = std::make_unique<trace::histogram>();
  for (const duration d : latencies(4096)) h->record(d);
  for (auto _ : state) benchmark::DoNotOptimize(h->percentile(0.99));
}

void recorder_complete(benchmark::State& state) {
  trace::recorder r(static_cast<std::size_t>(state.max_iterations));
  const trace::track_id row = r.add_track("gpu", "lane");
  const trace::label_id label = r.add_label("segment", "job", "operations");
  std::int64_t ns = 0;
  for (auto _ : state) {
    r.complete(row, label, time_point{duration{ns}}, duration{5}, 1, 2);
    ns += 10;
  }
  if (r.dropped() != 0) state.SkipWithError("events were lost");
}

} // namespace

BENCHMARK(histogram_record)->Name("trace/histogram/record");
BENCHMARK(histogram_percentile)->Name("trace/histogram/percentile");
BENCHMARK(recorder_complete)->Name("trace/recorder/complete")->Iterations(1 << 20);

BENCHMARK_MAIN();

// SPDX-License-Identifier: Apache-2.0
// The cost of maintaining the remaining time for each segment of 40 operations, compared with
// evaluating the formula after every segment. The results of both are compared at the end of each
// job.

#include <gsched/job/estimate.hpp>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

using namespace gsched;

namespace {

constexpr std::uint32_t size = 720, step = 40, kernels = 48;

const program& model() {
  static const program p = [] {
    std::vector<operation> ops(size);
    for (std::uint32_t i = 0; i < size; ++i) {
      ops[i].kernel = kernel_id{i * 7 % kernels};
      ops[i].expected = duration{2000 + static_cast<int>(i * 37 % 1000)};
    }
    program made("model", std::move(ops));
    made.set_id(program_id{0});
    return made;
  }();
  return p;
}

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "estimate_update: %s\n", what);
  std::exit(1);
}

/// Dispatches one segment, and observes the time of another.
void update(benchmark::State& state) {
  // each job runs the program twice: counts are kept by kernel
  const bool twice = state.range(1) != 0;
  const auto jobs = static_cast<std::size_t>(state.range(0));
  const program& p = model();
  estimator e;
  e.add(p, twice ? 2.0 : 1.0);
  e.reserve(jobs);
  struct job {
    job_progress* progress;
    std::uint32_t at;
    std::uint32_t end;
  };
  std::vector<job> all(jobs);
  for (job& j : all) j = {&e.begin(), 0, twice ? 2 * size : size};
  std::size_t turn = 0;
  for (auto _ : state) {
    job& j = all[turn];
    turn = turn + 1 < jobs ? turn + 1 : 0;
    const std::uint32_t first = j.at % size;
    const auto range = p.range(first, first + step);
    e.dispatched(*j.progress, p.id(), first, range);
    benchmark::DoNotOptimize(e.remaining(*j.progress));
    e.observe_segment(p.id(), first, range, duration{101000});
    j.at += step;
    if (j.at == j.end) {
      require(e.remaining(*j.progress) <= duration{kernels}, "a job that is done has work left");
      e.end(*j.progress, true);
      j = {&e.begin(), 0, j.end};
    }
  }
}
BENCHMARK(update)
    ->Name("estimate/segment/wall")
    ->ArgNames({"jobs", "twice"})
    ->Args({1, 0})
    ->Args({1000, 0})
    ->Args({1, 1})
    ->Args({1000, 1});

/// The formula as written: counts each operation, then sums over the kernels; means are updated
/// immediately.
void formula(benchmark::State& state) {
  const auto jobs = static_cast<std::size_t>(state.range(0));
  const program& p = model();
  struct mean {
    double count = 0, time = 0, n = 16;
  };
  std::vector<mean> means(kernels);
  for (const operation& op : p.operations()) {
    mean& m = means[index(op.kernel)];
    m.time += static_cast<double>(op.expected.count());
    m.count += 1.0;
  }
  for (mean& m : means) m.time /= m.count;
  std::vector<std::vector<std::uint32_t>> counts(jobs, std::vector<std::uint32_t>(kernels));
  std::vector<std::uint32_t> at(jobs);
  std::size_t turn = 0;
  for (auto _ : state) {
    auto& c = counts[turn];
    const std::uint32_t first = at[turn];
    const auto range = p.range(first, first + step);
    double known = 0.0;
    for (const operation* op : range) {
      ++c[index(op->kernel)];
      known += means[index(op->kernel)].time;
    }
    double remaining = 0.0;
    for (std::size_t k = 0; k < kernels; ++k)
      remaining += std::max(0.0, means[k].count - c[k]) * means[k].time;
    benchmark::DoNotOptimize(remaining);
    for (const operation* op : range) {
      mean& m = means[index(op->kernel)];
      m.n = std::min(m.n + 1.0, 4096.0);
      m.time += (101000.0 * m.time / known - m.time) / m.n;
    }
    at[turn] += step;
    if (at[turn] == size) {
      require(std::abs(remaining) < 1.0, "a job that is done has work left");
      at[turn] = 0;
      std::fill(c.begin(), c.end(), 0u);
    }
    turn = turn + 1 < jobs ? turn + 1 : 0;
  }
}
BENCHMARK(formula)->Name("formula/segment/wall")->ArgName("jobs")->Arg(1)->Arg(1000);

} // namespace

BENCHMARK_MAIN();

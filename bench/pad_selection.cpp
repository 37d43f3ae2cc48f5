// SPDX-License-Identifier: Apache-2.0
// The cost of choosing a best-effort kernel for a real-time kernel, and of maintaining the
// candidates.
//
//   pad/select/...   one choice. admit=some: for real-time kernels of 2 to 40 us of levels 1 to 8;
//                    admit=none: for terms that no candidate meets, so no search ends early
//   pad/advance/...  a task advances to its next kernel: its variants are replaced
//   pad/erase/...    a task has no kernel any more, and gets one again: both together
//   pad/plan/...     a real-time kernel that pad_planner pads, one of a program of 100. limits=yes:
//                    with pad_limits, which admit any number of blocks, some or none
//   pad/limits/...   set-up of pad_limits, for a pair of kernels
//
// candidates is the total number of variants. Containers: the library's selector; the same scan
// over an array of structs; one list ordered by kernel time that is walked until a candidate is
// admitted; and such a list for each level, of which those from the required level on are walked.
//
// All containers must choose what an exhaustive search chooses, while tasks arrive, leave and
// advance; otherwise the program ends with 1.

#include <gsched/preempt/colocate/pad_limits.hpp>
#include <gsched/preempt/colocate/plan.hpp>
#include <gsched/preempt/colocate/selection.hpp>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <vector>

namespace {

using namespace gsched;

constexpr std::uint32_t highest_level = 16;

double draw(std::mt19937_64& random, double least, double most) { // uniform in the logarithm
  const double part = static_cast<double>(random() >> 11) * 0x1.0p-53;
  return least * std::pow(most / least, part);
}

/// The variants of a kernel, as compilers tune them: the lower the level, the shorter the time.
std::vector<kernel_variant> kernel(std::mt19937_64& random, std::size_t variants) {
  std::vector<kernel_variant> all(variants);
  const double us = draw(random, 2, 200);
  for (kernel_variant& k : all) {
    k.level = 1 + static_cast<std::uint32_t>(random() % highest_level);
    k.kernel_time = from_us(us * draw(random, 1, 1 + 0.1 * k.level));
    k.block_time = from_us(to_us(k.kernel_time) / draw(random, 1, 8));
    k.blocks = 1 + static_cast<std::uint32_t>(random() % 2000);
  }
  return all;
}

// Containers that could hold the candidates -------------------------------------------------------

struct array_of_structs {
  std::vector<std::vector<kernel_variant>> tasks;
  array_of_structs(std::size_t n, std::size_t variants) : tasks(n) {
    for (auto& t : tasks) t.reserve(variants);
  }
  void set(std::uint32_t task, std::span<const kernel_variant> variants) {
    tasks[task].assign(variants.begin(), variants.end());
  }
  void erase(std::uint32_t task) { tasks[task].clear(); }
  std::optional<pad_pick> select(const pad_terms& terms) const {
    std::optional<pad_pick> best;
    duration least = duration::max();
    for (std::uint32_t t = 0; t < tasks.size(); ++t)
      for (std::uint32_t v = 0; v < tasks[t].size(); ++v)
        if (terms.admit(tasks[t][v]) && tasks[t][v].kernel_time < least) {
          least = tasks[t][v].kernel_time;
          best = pad_pick{t, v};
        }
    return best;
  }
};

/// Candidates ordered by (kernel time, task, variant), with the properties that the terms test.
struct ordered_list {
  struct entry {
    duration kernel_time;
    std::uint32_t task, variant;
    duration block_time;
    std::uint32_t level;
    bool operator<(const entry& o) const {
      return std::tie(kernel_time, task, variant) < std::tie(o.kernel_time, o.task, o.variant);
    }
  };
  std::vector<entry> entries;

  static entry of(const kernel_variant& k, std::uint32_t task, std::uint32_t variant) {
    return {k.kernel_time, task, variant, k.block_time, k.level};
  }
  void insert(const entry& e) {
    entries.insert(std::upper_bound(entries.begin(), entries.end(), e), e);
  }
  void remove(const entry& e) {
    entries.erase(std::lower_bound(entries.begin(), entries.end(), e));
  }
  const entry* first(const pad_terms& terms) const {
    for (const entry& e : entries)
      if (e.block_time < terms.time && e.level >= terms.level) return &e;
    return nullptr;
  }
};

/// One list for each level, or one list of all candidates.
template <std::uint32_t Lists>
struct ordered {
  std::array<ordered_list, Lists> lists;
  std::vector<std::vector<kernel_variant>> tasks; ///< to find the entries to remove
  ordered(std::size_t n, std::size_t variants) : tasks(n) {
    for (auto& l : lists) l.entries.reserve(n * variants);
    for (auto& t : tasks) t.reserve(variants);
  }
  static std::uint32_t list_of(std::uint32_t level) { return std::min(level, Lists) - 1; }
  void set(std::uint32_t task, std::span<const kernel_variant> variants) {
    erase(task);
    tasks[task].assign(variants.begin(), variants.end());
    for (std::uint32_t v = 0; v < variants.size(); ++v)
      lists[list_of(variants[v].level)].insert(ordered_list::of(variants[v], task, v));
  }
  void erase(std::uint32_t task) {
    for (std::uint32_t v = 0; v < tasks[task].size(); ++v)
      lists[list_of(tasks[task][v].level)].remove(ordered_list::of(tasks[task][v], task, v));
    tasks[task].clear();
  }
  std::optional<pad_pick> select(const pad_terms& terms) const {
    const ordered_list::entry* best = nullptr;
    for (std::uint32_t l = list_of(std::max(terms.level, 1u)); l < Lists; ++l) {
      const ordered_list::entry* e = lists[l].first(terms);
      if (e != nullptr && (best == nullptr || *e < *best)) best = e;
    }
    if (best == nullptr) return std::nullopt;
    return pad_pick{best->task, best->variant};
  }
};

// Measuring ---------------------------------------------------------------------------------------

template <class Container>
struct scene {
  static constexpr std::size_t kernels = 512;
  static constexpr std::size_t queries = 1024;

  std::size_t tasks;
  std::vector<std::vector<kernel_variant>> all;
  std::vector<pad_terms> terms;
  std::vector<std::uint32_t> order; ///< the order in which tasks change
  Container candidates;

  scene(std::size_t n, std::size_t variants, bool some) : tasks(n), candidates(n, variants) {
    std::mt19937_64 random(1);
    for (std::size_t i = 0; i < kernels; ++i) all.push_back(kernel(random, variants));
    for (std::uint32_t t = 0; t < n; ++t) candidates.set(t, all[t % kernels]);
    for (std::size_t i = 0; i < queries; ++i) {
      const duration time = from_us(draw(random, 2, 40));
      terms.push_back(
          {some ? time : duration::zero(), 1 + static_cast<std::uint32_t>(random() % 8)});
      order.push_back(static_cast<std::uint32_t>(random() % n));
    }
  }
};

enum class what { select, advance, erase };

template <class Container>
void measure(benchmark::State& state, std::size_t tasks, std::size_t variants, bool some, what of) {
  scene<Container> s(tasks, variants, some);
  std::size_t i = 0;
  for (auto _ : state) {
    const std::size_t now = i++ % s.queries;
    if (of == what::select) {
      benchmark::DoNotOptimize(s.candidates.select(s.terms[now]));
    } else {
      if (of == what::erase) s.candidates.erase(s.order[now]);
      s.candidates.set(s.order[now], s.all[i % s.kernels]);
      benchmark::ClobberMemory();
    }
  }
}

/// Compares the container with the exhaustive search while tasks arrive and leave.
template <class Container>
bool agrees(std::size_t tasks, std::size_t variants) {
  scene<Container> s(tasks, variants, true);
  scene<array_of_structs> naive(tasks, variants, true);
  for (std::size_t i = 0; i < 20000; ++i) {
    const std::uint32_t task = s.order[i % s.queries];
    if (i % 3 == 0) {
      s.candidates.erase(task);
      naive.candidates.erase(task);
    } else {
      s.candidates.set(task, s.all[i % s.kernels]);
      naive.candidates.set(task, s.all[i % s.kernels]);
    }
    const pad_terms& t = s.terms[(i * 7) % s.queries];
    if (s.candidates.select(t) != naive.candidates.select(t)) return false;
  }
  return true;
}

int differences = 0;

template <class Container>
void add(const std::string& name) {
  struct size {
    std::size_t tasks, variants;
  };
  for (const auto& [tasks, variants] : {size{10, 1}, size{10, 10}, size{100, 10}, size{1000, 1}}) {
    if (!agrees<Container>(tasks, variants)) {
      std::fprintf(stderr, "pad_selection: %s chooses otherwise than a search of all\n",
                   name.c_str());
      ++differences;
    }
    const auto row = [&](what of, const std::string& kind, const std::string& more, bool some) {
      const std::string label = "pad/" + kind + "/cpu/ns{container=" + name +
                                ",candidates=" + std::to_string(tasks * variants) +
                                ",variants=" + std::to_string(variants) + more + "}";
      benchmark::RegisterBenchmark(
          label.c_str(),
          [=](benchmark::State& state) { measure<Container>(state, tasks, variants, some, of); })
          ->Repetitions(7)
          ->ReportAggregatesOnly()
          ->MinTime(0.05);
    };
    row(what::select, "select", ",admit=some", true);
    row(what::select, "select", ",admit=none", false);
    row(what::advance, "advance", "", true);
    row(what::erase, "erase", "", true);
  }
}

// Whole plans, and limits -------------------------------------------------------------------------

constexpr std::uint32_t sms = 132;

/// Programs of kernels with demands.
struct counted_programs {
  static constexpr std::size_t operations = 100;

  std::vector<pad_program> programs;
  std::vector<kernel_chain> chains;

  counted_programs(std::size_t n, std::size_t variants, double most_blocks) {
    std::mt19937_64 random(n);
    for (std::size_t p = 0; p < n; ++p) {
      std::vector<std::vector<kernel_variant>> all;
      kernel_chain& c = chains.emplace_back();
      c.sms = sms;
      for (std::size_t i = 0; i < operations; ++i) {
        chain_kernel& k = c.kernels.emplace_back();
        k.us = 10;
        k.blocks = std::floor(draw(random, 1, most_blocks));
        k.per_sm = 1 + static_cast<double>(random() % 8);
        k.warps = 1 + static_cast<double>(random() % 8);
        for (double& use : k.takes.use) use = draw(random, 0.01, 1);
        std::vector<kernel_variant> of = kernel(random, variants);
        for (kernel_variant& v : of) {
          v.blocks = static_cast<std::uint32_t>(k.blocks);
          v.threads_per_block = 256;
        }
        all.push_back(std::move(of));
      }
      programs.emplace_back("program", all);
    }
  }
};

void measure_plan(benchmark::State& state, std::size_t corunners, bool limited) {
  constexpr std::size_t variants = 4;
  const counted_programs real_time(1, 1, 132), best_effort(corunners, variants, 500);
  std::vector<pad_limits> limits;
  std::vector<const pad_limits*> by;
  limits.reserve(corunners);
  for (const kernel_chain& c : best_effort.chains)
    by.push_back(&limits.emplace_back(real_time.chains[0], c, contention_law{}, 1.2));
  pad_options how;
  how.sms = sm_count{sms};
  pad_planner planner(how, corunners, variants);
  std::vector<pad_corunner> at(corunners);
  std::vector<pad_part> parts(pad_options::most_parts * counted_programs::operations);
  for (auto _ : state) {
    for (std::size_t g = 0; g < corunners; ++g) at[g] = {&best_effort.programs[g], 0, 0, 0};
    const std::span<const pad_limits* const> given(by.data(), limited ? by.size() : 0);
    benchmark::DoNotOptimize(
        planner.plan(real_time.programs[0], 0, counted_programs::operations, at, parts, given));
  }
  state.counters["a real-time kernel"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * counted_programs::operations,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void measure_limits(benchmark::State& state) {
  const counted_programs both(2, 1, 300);
  for (auto _ : state)
    benchmark::DoNotOptimize(pad_limits(both.chains[0], both.chains[1], contention_law{}));
  constexpr std::size_t pairs = counted_programs::operations * counted_programs::operations;
  state.counters["a pair"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * pairs,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void add_plans() {
  const auto row = [](const std::string& name, auto body) {
    benchmark::RegisterBenchmark(name.c_str(), body)
        ->Repetitions(7)
        ->ReportAggregatesOnly()
        ->MinTime(0.05);
  };
  for (const std::size_t n : {std::size_t{1}, std::size_t{10}})
    for (const bool limited : {false, true})
      row("pad/plan/cpu/ns{corunners=" + std::to_string(n) + ",limits=" + (limited ? "yes" : "no") +
              "}",
          [=](benchmark::State& state) { measure_plan(state, n, limited); });
  row("pad/limits/cpu/ns", measure_limits);
}

} // namespace

int main(int argc, char** argv) {
  add<pad_selector>("pad_selector (used)");
  add<array_of_structs>("array of structs");
  add<ordered<1>>("ordered list");
  add<ordered<highest_level>>("ordered list a level");
  if (differences > 0) return 1;
  add_plans();

  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
#include "block_dispatch/run.hpp"

#include "block_dispatch/kernels.hpp"
#include "block_dispatch/load.hpp"
#include "experiment.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/gpu.hpp>

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <numeric>

namespace block_dispatch {

using nlohmann::ordered_json;

namespace {

constexpr double throughput_seconds = 0.3;
constexpr std::array<unsigned, 3> backlog{0, 8, 8}; ///< short jobs matter for latency only

/// The result of a way in one round of one load.
struct figures {
  std::array<double, 3> mean_us{};
  std::array<double, 3> p99_us{};
  double all_mean_us = 0;
  bool gave_up = false;
};

figures figures_of(const latencies& l) {
  figures f;
  double sum = 0;
  std::size_t n = 0;
  for (std::size_t t = 0; t < l.of.size(); ++t) {
    const double of_tenant = std::accumulate(l.of[t].begin(), l.of[t].end(), 0.0);
    if (!l.of[t].empty()) f.mean_us[t] = of_tenant / static_cast<double>(l.of[t].size());
    f.p99_us[t] = experiment::quantile(l.of[t], 0.99);
    sum += of_tenant;
    n += l.of[t].size();
  }
  f.all_mean_us = n == 0 ? 0 : sum / static_cast<double>(n);
  f.gave_up = l.gave_up;
  return f;
}

/// Median, minimum and maximum over the rounds.
ordered_json spread(const std::vector<double>& values) {
  return {{"median", experiment::median(values)},
          {"least", *std::ranges::min_element(values)},
          {"most", *std::ranges::max_element(values)}};
}

long long cycles_a_us(int gpu) {
  int khz = 0;
  gsched::cuda::check(cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, gpu), "clock");
  return std::max(1, khz / 1000);
}

template <class All>
std::vector<typename All::value_type> chosen(const All& all, const std::vector<std::string>& names,
                                             const char* what) {
  if (names.empty()) return all;
  std::vector<typename All::value_type> some;
  for (const std::string& name : names) {
    const auto at = std::ranges::find(all, name, [](const auto& x) { return x.name; });
    if (at == all.end())
      throw gsched::error(gsched::errc::unknown_name,
                          name + ": no such " + what + ", expected one of --list");
    some.push_back(*at);
  }
  return some;
}

class experiment_of_mix {
public:
  experiment_of_mix(const mix& m, std::vector<way> ways, const run_options& o,
                    experiment::watchdog& dog)
      : mix_(m), ways_(std::move(ways)), o_(o), dog_(dog) {}

  ordered_json run(double until) {
    const long long cycles = cycles_a_us(o_.gpu);
    std::vector<std::unique_ptr<server>> by_srpt;
    std::vector<std::unique_ptr<server>> by_fifo;
    for (const way& w : ways_) {
      dog_.step(mix_.name + ", set-up of " + w.name, 60);
      by_srpt.push_back(make(server_options{w, mix_, order::srpt, o_.lanes, cycles, o_.gpu}));
      by_fifo.push_back(make(server_options{w, mix_, order::fifo, o_.lanes, cycles, o_.gpu}));
    }
    const std::unique_ptr<server> plain =
        make(server_options{all_ways().front(), mix_, order::fifo, o_.lanes, cycles, o_.gpu});
    dog_.step(mix_.name + ", rates", 60);
    for (unsigned t = 0; t < 3; ++t) {
      std::array<unsigned, 3> one{};
      one[t] = 16;
      alone_[t] = measure_throughput(*plain, one, throughput_seconds)[t];
    }
    ordered_json out{{"mix", mix_.name}, {"jobs_alone_per_s", alone_}};
    fmt::print("\n{}: jobs a second alone: short {:.0f}, medium {:.0f}, long {:.0f}\n", mix_.name,
               alone_[0], alone_[1], alone_[2]);
    alone(by_fifo, out);
    throughput(by_fifo, out);
    for (const double load : o_.loads) latency(by_srpt, load, until, out);
    for (const auto& all : {&by_srpt, &by_fifo})
      for (std::size_t i = 0; i < all->size(); ++i) (*all)[i]->check_end();
    return out;
  }

private:
  static std::unique_ptr<server> make(const server_options& o) {
    return o.how.by == account::driver ? make_driver_server(o) : make_gsched_server(o);
  }

  /// Each tenant alone: the cost of the way without other tenants.
  void alone(std::vector<std::unique_ptr<server>>& servers, ordered_json& out) {
    fmt::print("a tenant alone, with a backlog, fifo: work done, 1 is what streams do\n");
    for (std::size_t i = 0; i < ways_.size(); ++i) {
      std::array<double, 3> work{};
      for (unsigned t = 0; t < 3; ++t) {
        dog_.step(mix_.name + ", alone, " + ways_[i].name, 60);
        std::array<unsigned, 3> one{};
        one[t] = 16;
        work[t] = measure_throughput(*servers[i], one, throughput_seconds)[t] / alone_[t];
      }
      out["alone"].push_back({{"way", ways_[i].name}, {"work", work}});
      fmt::print("  {:<16} {:6.3f} {:6.3f} {:6.3f}\n", ways_[i].name, work[0], work[1], work[2]);
    }
    std::fflush(stdout);
  }

  /// Jobs a second relative to those alone, summed over the tenants: in GPUs' worth of work.
  void throughput(std::vector<std::unique_ptr<server>>& servers, ordered_json& out) {
    std::vector<std::vector<double>> work(ways_.size());
    for (unsigned turn = 0; turn < o_.turns; ++turn)
      for (std::size_t i = 0; i < ways_.size(); ++i) {
        dog_.step(mix_.name + ", backlog, " + ways_[i].name, 60);
        const std::array<double, 3> got =
            measure_throughput(*servers[i], backlog, throughput_seconds);
        double sum = 0;
        for (std::size_t t = 0; t < 3; ++t) sum += got[t] / alone_[t];
        work[i].push_back(sum);
      }
    fmt::print("backlog of {} medium and {} long jobs, fifo: work done, 1 is a tenant alone\n",
               backlog[1], backlog[2]);
    for (std::size_t i = 0; i < ways_.size(); ++i) {
      const ordered_json s = spread(work[i]);
      out["throughput"].push_back({{"way", ways_[i].name}, {"work", s}});
      fmt::print("  {:<16} {:6.3f} ({:.3f} to {:.3f})\n", ways_[i].name, s["median"].get<double>(),
                 s["least"].get<double>(), s["most"].get<double>());
    }
    std::fflush(stdout);
  }

  void latency(std::vector<std::unique_ptr<server>>& servers, double load, double until,
               ordered_json& out) {
    std::array<double, 3> rates{};
    for (std::size_t t = 0; t < 3; ++t) rates[t] = load * mix_.tenants[t].share * alone_[t];
    std::vector<std::vector<figures>> seen(ways_.size());
    unsigned turns = 0;
    for (; turns < o_.turns && experiment::seconds_now() < until; ++turns)
      for (std::size_t i = 0; i < ways_.size(); ++i) {
        dog_.step(fmt::format("{}, load {}, {}", mix_.name, load, ways_[i].name), 60);
        seen[i].push_back(figures_of(measure_latency(*servers[i], rates, o_.seconds, 17 + turns)));
      }
    if (turns == 0) {
      fmt::print("load {}: left out, as the time is over\n", load);
      return;
    }
    fmt::print("load {:.2f}, srpt, {} turns: mean / p99 us, medians (least and most of p99)\n"
               "  {:<16} {:^34} {:^18} {:^18} {:>8}\n",
               load, turns, "way", "short", "medium", "long", "mean");
    ordered_json rows = ordered_json::array();
    for (std::size_t i = 0; i < ways_.size(); ++i) rows.push_back(row(ways_[i].name, seen[i]));
    for (const ordered_json& r : rows) print(r);
    out["latency"].push_back({{"load", load}, {"rates", rates}, {"turns", turns}, {"ways", rows}});
    std::fflush(stdout);
  }

  ordered_json row(const std::string& name, const std::vector<figures>& of) const {
    ordered_json r{{"way", name}, {"gave_up", std::ranges::count_if(of, &figures::gave_up)}};
    const auto add = [&](const std::string& key, auto get) {
      std::vector<double> values;
      for (const figures& f : of) values.push_back(get(f));
      r[key] = spread(values);
    };
    for (std::size_t t = 0; t < 3; ++t) {
      add(mix_.tenants[t].name + "_mean_us", [&](const figures& f) { return f.mean_us[t]; });
      add(mix_.tenants[t].name + "_p99_us", [&](const figures& f) { return f.p99_us[t]; });
    }
    add("mean_us", [](const figures& f) { return f.all_mean_us; });
    return r;
  }

  static void print(const ordered_json& r) {
    const auto of = [&](const char* key, const char* what = "median") {
      return r[key][what].get<double>();
    };
    fmt::print("  {:<16} {:7.0f} / {:7.0f} ({:6.0f} to {:6.0f})  {:7.0f} / {:7.0f}  {:7.0f} / "
               "{:7.0f}  {:7.0f}{}\n",
               r["way"].get<std::string>(), of("short_mean_us"), of("short_p99_us"),
               of("short_p99_us", "least"), of("short_p99_us", "most"), of("medium_mean_us"),
               of("medium_p99_us"), of("long_mean_us"), of("long_p99_us"), of("mean_us"),
               r["gave_up"].get<long>() > 0 ? "  at least" : "");
  }

  const mix& mix_;
  std::vector<way> ways_;
  const run_options& o_;
  experiment::watchdog& dog_;
  std::array<double, 3> alone_{};
};

void save(const std::string& path, const ordered_json& all) {
  std::ofstream out(path);
  out << all.dump(1) << '\n';
  out.close();
  if (!out)
    throw gsched::error(gsched::errc::io, path + ": cannot be written, expected a writable path");
}

} // namespace

void run(const run_options& o) {
  const std::vector<way> ways = chosen(all_ways(), o.ways, "way");
  const std::vector<mix> mixes = chosen(all_mixes(), o.mixes, "mix");
  experiment::watchdog dog("gsched.gpu.block_dispatch");
  dog.step("start of CUDA", 30);
  const gsched::cuda::gpu gpu = gsched::cuda::find_gpu(o.gpu);
  const gsched::cuda::current_gpu here(o.gpu);
  allow_shared_memory();
  ordered_json all{{"experiment", "block_dispatch"}, {"gpu", gpu.name},
                   {"driver", gpu.driver_version},   {"lanes", o.lanes},
                   {"seconds", o.seconds},           {"mixes", ordered_json::array()}};
  const double until = experiment::seconds_now() + o.time_limit;
  for (const mix& m : mixes) {
    if (experiment::seconds_now() > until) {
      fmt::print("\n{}: left out, as the time is over\n", m.name);
      continue;
    }
    all["mixes"].push_back(experiment_of_mix(m, ways, o, dog).run(until));
    if (!o.json.empty()) save(o.json, all); // also if a later mix fails
  }
  dog.rest();
}

} // namespace block_dispatch

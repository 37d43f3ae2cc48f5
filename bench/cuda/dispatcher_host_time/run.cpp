// SPDX-License-Identifier: Apache-2.0
#include "run.hpp"

#include "experiment.hpp"
#include "serving.hpp"

#include <gsched/io/profile_json.hpp>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <memory>
#include <stdexcept>

namespace host_time {

namespace {

using nlohmann::json;

void print(const std::string& line) {
  std::fputs(line.c_str(), stdout);
  std::fflush(stdout);
}

/// The cost of reading the clock: the results include two readings a step and four a segment.
double clock_ns() {
  constexpr int n = 100000;
  const auto from = std::chrono::steady_clock::now();
  for (int i = 0; i < n; ++i) static_cast<void>(std::chrono::steady_clock::now());
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - from).count() /
         n;
}

template <class F>
double median_of(const std::vector<figures>& all, F f) {
  std::vector<double> values;
  for (const figures& one : all) values.push_back(f(one));
  return experiment::median(std::move(values));
}

double busy(const figures& f) { return f.busy_ns; }
double driver(const figures& f) { return f.driver_ns; }
double beyond(const figures& f) { return f.beyond_driver_ns(); }
double useful(const figures& f) { return f.useful_ns(); }
double rate(const figures& f) { return f.segments_per_second; }

json json_of(const figures& f) {
  return {{"busy_ns", f.busy_ns},
          {"driver_ns", f.driver_ns},
          {"beyond_driver_ns", f.beyond_driver_ns()},
          {"beyond_driver_and_fruitless_steps_ns", f.useful_ns()},
          {"segments_per_job", f.segments_per_job},
          {"segments_per_second", f.segments_per_second}};
}

} // namespace

void run(const run_options& o) {
  experiment::watchdog guard("gsched.gpu.dispatcher_host_time");
  guard.step("loading the model", 120);
  const gsched::profile model = gsched::load_profile(o.profile);
  std::vector<std::unique_ptr<serving>> all;
  for (const unsigned jobs : o.jobs) all.push_back(std::make_unique<serving>(model, o, jobs));
  const gsched::cuda::gpu gpu = all.front()->gpu();
  const double clock = clock_ns();
  print(fmt::format("{}, {} operations, {} segments a run{}; a reading of the clock {:.0f} ns\n",
                    gpu.name, model.operations.size(), o.segments,
                    o.instrumented ? ", instrumented" : "", clock));
  for (std::size_t i = 0; i < all.size(); ++i) {
    guard.step("warming up", 120);
    static_cast<void>(all[i]->run(std::min<std::uint64_t>(o.segments, 1000)));
  }
  std::vector<std::vector<figures>> seen(all.size());
  for (unsigned r = 0; r < o.runs; ++r) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      guard.step(fmt::format("run {} with {} jobs", r, o.jobs[i]), 120);
      const figures f = seen[i].emplace_back(all[i]->run(o.segments));
      print(fmt::format(
          "run {} jobs {:>3}: busy {:6.0f} ns a segment, driver {:6.0f}, beyond {:6.0f}\n", r,
          o.jobs[i], f.busy_ns, f.driver_ns, f.beyond_driver_ns()));
    }
  }
  guard.step("ending", 60);
  json rows = json::array();
  print("\nhost time a segment, ns, medians\n"
        "jobs    busy  driver  beyond  without fruitless steps  segments/s\n");
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i]->stop();
    const std::vector<figures>& s = seen[i];
    print(fmt::format("{:>4}  {:6.0f}  {:6.0f}  {:6.0f}  {:23.0f}  {:10.0f}\n", o.jobs[i],
                      median_of(s, busy), median_of(s, driver), median_of(s, beyond),
                      median_of(s, useful), median_of(s, rate)));
    json row = {{"jobs", o.jobs[i]},
                {"built_late", all[i]->built_late()},
                {"median_busy_ns", median_of(s, busy)},
                {"median_driver_ns", median_of(s, driver)},
                {"median_beyond_driver_ns", median_of(s, beyond)},
                {"median_beyond_driver_and_fruitless_steps_ns", median_of(s, useful)},
                {"runs", json::array()}};
    for (const figures& f : s) row["runs"].push_back(json_of(f));
    rows.push_back(std::move(row));
  }
  all.clear();
  if (o.json.empty()) return;
  std::ofstream out(o.json);
  out << json{{"name", "dispatcher_host_time"},
              {"gpu", gpu.name},
              {"driver", gpu.driver_version},
              {"runtime", gpu.runtime_version},
              {"date", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))},
              {"profile", o.profile.filename().string()},
              {"policy", "srpt+deficit"},
              {"instrumented", o.instrumented},
              {"segments", o.segments},
              {"copies", o.copies},
              {"clock_ns", clock},
              {"rows", rows}}
             .dump(2)
      << '\n';
  if (!out) throw std::runtime_error(o.json + ": cannot be written");
}

} // namespace host_time

// SPDX-License-Identifier: Apache-2.0
#include "two_gpu_tenants/command_line.hpp"

#include "common/command_line.hpp"
#include "common/save.hpp"
#include "common/values.hpp"

#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <cstdlib>
#include <limits>
#include <ostream>
#include <random>
#include <thread>

namespace two_gpu_tenants {

namespace {

using gsched::duration;
using gsched::to_us;

struct row {
  std::string tenant;
  std::string mode;
  const gsched::trace::histogram& latency;
  std::uint64_t wrong;
};

} // namespace

std::optional<options> parse(int argc, char** argv) {
  options o;
  CLI::App app("Two tenants of one GPU, a small job beside a large one: each on a stream of its "
               "own, then through gsched",
               "two_gpu_tenants");
  std::string gpu = "0", requests = std::to_string(o.requests), gap = "400",
              in_flight = std::to_string(o.in_flight), keys = std::to_string(o.keys),
              samples = std::to_string(o.samples), seed = "1", limit = std::to_string(o.limit_s);
  const auto add = [&](const char* name, std::string& text, const char* about) {
    app.add_option(name, text, about)->capture_default_str();
  };
  add("--gpu", gpu, "number of the GPU");
  add("--requests", requests, "jobs of the first tenant");
  add("--gap-us", gap, "mean time between them");
  add("--in-flight", in_flight, "jobs of the second tenant at once");
  add("--keys", keys, "that a job of the second tenant sorts");
  add("--samples", samples, "that a job of the first tenant smooths");
  add("--seed", seed, "of the arrivals and the data");
  add("--limit-s", limit, "end with an error after that many seconds");
  add("--json", o.json, "write results to a file, or - for standard output");
  if (!common::parse(app, argc, argv)) return std::nullopt;
  o.gpu = static_cast<int>(common::to_count("--gpu", gpu, 0, 1023));
  o.requests = common::to_count("--requests", requests, 1, 10'000'000);
  o.in_flight = common::to_count("--in-flight", in_flight, 1, 64);
  o.keys = common::to_count("--keys", keys, 1u << 12, 1u << 28);
  o.samples = common::to_count("--samples", samples, 1u << 12, 1u << 26);
  o.seed = common::to_count("--seed", seed, 0, std::numeric_limits<std::uint64_t>::max());
  o.limit_s = static_cast<unsigned>(common::to_count("--limit-s", limit, 1, 3600));
  o.gap_us = common::to_number("--gap-us", gap, {1, 1e6, false, "microseconds"});
  if (o.json != "-") common::check_outputs({{"--json", o.json}});
  return o;
}

arrivals arrivals_of(const options& o) {
  std::mt19937_64 random(o.seed);
  std::exponential_distribution<double> gap(1 / o.gap_us);
  arrivals when;
  when.second_in_flight = o.in_flight;
  double at_us = 1000; // the second tenant is at work by then
  for (std::size_t i = 0; i < o.requests; ++i)
    when.first.push_back(gsched::from_us(at_us += gap(random)));
  return when;
}

void tell(const options& o, const std::string& gpu, const std::array<tenant, 2>& tenants,
          const outcome& unscheduled, const outcome& scheduled) {
  std::vector<row> rows;
  for (std::size_t i = 0; i < 2; ++i) {
    rows.push_back({tenants[i].name, "unscheduled", unscheduled.latency[i], unscheduled.wrong[i]});
    rows.push_back({tenants[i].name, "scheduled", scheduled.latency[i], scheduled.wrong[i]});
  }
  FILE* const text = o.json == "-" ? stderr : stdout;
  fmt::print(text, "{:<10} {:<12} {:>7} {:>10} {:>10} {:>10} {:>6}\n", "tenant", "", "jobs",
             "mean us", "p50 us", "p99 us", "wrong");
  nlohmann::json all = {{"program", "two_gpu_tenants"},
                        {"gpu", gpu},
                        {"requests", o.requests},
                        {"gap_us", o.gap_us},
                        {"seed", o.seed},
                        {"unscheduled_s", unscheduled.seconds},
                        {"scheduled_s", scheduled.seconds},
                        {"rows", nlohmann::json::array()}};
  for (const row& r : rows) {
    const double mean = to_us(r.latency.mean());
    const double half = to_us(r.latency.percentile(0.5));
    const double most = to_us(r.latency.percentile(0.99));
    fmt::print(text, "{:<10} {:<12} {:>7} {:>10.1f} {:>10.1f} {:>10.1f} {:>6}\n", r.tenant, r.mode,
               r.latency.count(), mean, half, most, r.wrong);
    all["rows"].push_back({{"tenant", r.tenant},
                           {"mode", r.mode},
                           {"jobs", r.latency.count()},
                           {"mean_us", mean},
                           {"p50_us", half},
                           {"p99_us", most},
                           {"wrong", r.wrong}});
  }
  if (o.json == "-") fmt::print("{}\n", all.dump(2));
  if (o.json.empty() || o.json == "-") return;
  common::save(o.json, [&](std::ostream& to) { to << all.dump(2) << '\n'; });
}

void end_after(std::chrono::seconds limit) {
  std::thread([limit] {
    std::this_thread::sleep_for(limit);
    std::fprintf(stderr, "two_gpu_tenants: not at its end after %lld s, expected it to be\n",
                 static_cast<long long>(limit.count()));
    std::_Exit(3);
  }).detach();
}

} // namespace two_gpu_tenants

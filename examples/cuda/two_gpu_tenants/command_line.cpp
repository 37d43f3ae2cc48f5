// SPDX-License-Identifier: Apache-2.0
#include "two_gpu_tenants/command_line.hpp"

#include <gsched/core/error.hpp>

#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <cstdlib>
#include <fstream>
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

std::optional<options> parse(int argc, char** argv, int& exit) {
  options o;
  CLI::App app("Two tenants of one GPU, a small job beside a large one: each on a stream of its "
               "own, then through gsched",
               "two_gpu_tenants");
  app.option_defaults()->always_capture_default();
  app.add_option("--gpu", o.gpu, "number of the GPU")->check(CLI::NonNegativeNumber);
  app.add_option("--requests", o.requests, "jobs of the first tenant")
      ->check(CLI::Range(std::size_t{1}, std::size_t{10'000'000}));
  app.add_option("--gap-us", o.gap_us, "mean time between them")->check(CLI::Range(1.0, 1e6));
  app.add_option("--in-flight", o.in_flight, "jobs of the second tenant at once")
      ->check(CLI::Range(1, 64));
  app.add_option("--keys", o.keys, "that a job of the second tenant sorts")
      ->check(CLI::Range(std::size_t{1} << 12, std::size_t{1} << 28));
  app.add_option("--samples", o.samples, "that a job of the first tenant smooths")
      ->check(CLI::Range(std::size_t{1} << 12, std::size_t{1} << 26));
  app.add_option("--seed", o.seed, "of the arrivals and the data");
  app.add_option("--limit-s", o.limit_s, "end with an error after that many seconds")
      ->check(CLI::Range(1, 3600));
  app.add_option("--json", o.json, "write results to a file, or - for standard output");
  exit = 0;
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {
    exit = app.exit(e);
    return std::nullopt;
  } catch (const CLI::ParseError& e) {
    std::fprintf(stderr, "two_gpu_tenants: %s\n", e.what());
    exit = 2;
    return std::nullopt;
  }
  if (!o.json.empty() && o.json != "-" && !std::ofstream(o.json, std::ios::app)) {
    std::fprintf(stderr, "two_gpu_tenants: %s: cannot be written, expected a file that can\n",
                 o.json.c_str());
    exit = 2;
    return std::nullopt;
  }
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
  std::ofstream out(o.json);
  out << all.dump(2) << '\n';
  if (!out.flush())
    throw gsched::error(gsched::errc::io, o.json + ": cannot be written, expected a file that can");
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

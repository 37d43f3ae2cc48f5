// SPDX-License-Identifier: Apache-2.0
// What few hardware queues do to many small jobs. Each job is a chain of kernels, each too small to
// fill the GPU, on a stream of its own. Submitted job by job, a queue's head waits for the kernel
// before it and blocks all jobs behind it; submitted one kernel at a time, as the one before ends,
// nothing ever waits in a queue. Prints how many jobs run at once either way.
// Source: Paella, SOSP 2023, doi:10.1145/3600006.3613163, section 2.1.

#include "head_of_line/experiment.hpp"

#include <gsched/core/error.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <string>
#include <vector>

namespace {

using namespace head_of_line;
using nlohmann::ordered_json;

void save(const std::string& path, const ordered_json& figures) {
  std::ofstream out(path);
  out << figures.dump(2) << '\n';
  out.close();
  if (out) return;
  throw gsched::error(gsched::errc::io, path + ": cannot be written, expected a writable path");
}

void run(const experiment& e, const std::vector<std::uint32_t>& queues, const std::string& json) {
  ordered_json runs;
  fmt::print("jobs at once, of {} with {} kernels of {} us\n", e.jobs, e.kernels, e.kernel_us);
  fmt::print("{:>8} {:>12} {:>12}\n", "queues", "job by job", "interleaved");
  for (const std::uint32_t q : queues) {
    const double by_job = jobs_at_once(e, q, order::job_by_job);
    const double mixed = jobs_at_once(e, q, order::interleaved);
    fmt::print("{:>8} {:>12.1f} {:>12.1f}\n", q, by_job, mixed);
    runs.push_back({{"queues", q}, {"job_by_job", by_job}, {"interleaved", mixed}});
  }
  if (json.empty()) return;
  save(json, {{"device", "sim:h200"},
              {"jobs", e.jobs},
              {"kernels", e.kernels},
              {"kernel_us", e.kernel_us},
              {"runs", runs}});
}

} // namespace

int main(int argc, char** argv) {
  experiment e;
  std::vector<std::uint32_t> queues{8, 32, 128};
  std::string json;
  CLI::App app(
      "Jobs that run at once on a simulated H200, by hardware queues and submission order.");
  app.add_option("--queues", queues, "hardware queues, a run each")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  const auto add = [&](const char* name, auto& value, auto least, auto most, const char* about) {
    app.add_option(name, value, about)->check(CLI::Range(least, most))->capture_default_str();
  };
  add("--jobs", e.jobs, 1, 65536, "jobs, each on a stream of its own");
  add("--kernels", e.kernels, 1, 10000, "kernels of a job");
  add("--threads", e.threads, 1, 1024, "of a kernel's one block");
  add("--kernel-us", e.kernel_us, 0.1, 1e6, "time of a kernel");
  app.add_option("--json", json, "write the figures to this file");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& wrong) {
    if (wrong.get_exit_code() == 0) return app.exit(wrong);
    fmt::print(stderr, "head_of_line: {}\n", wrong.what());
    return 2;
  }
  try {
    run(e, queues, json);
    return 0;
  } catch (const gsched::error& wrong) {
    fmt::print(stderr, "head_of_line: {}\n", wrong.what());
    return 2;
  } catch (const std::exception& wrong) {
    fmt::print(stderr, "head_of_line: {}\n", wrong.what());
    return 1;
  }
}

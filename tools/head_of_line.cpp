// SPDX-License-Identifier: Apache-2.0
// What few hardware queues do to many small jobs. Each job is a chain of kernels, each too small to
// fill the GPU, on a stream of its own. Submitted job by job, a queue's head waits for the kernel
// before it and blocks all jobs behind it; submitted one kernel at a time, as the one before ends,
// nothing ever waits in a queue. Prints how many jobs run at once either way.
// Source: Paella, SOSP 2023, doi:10.1145/3600006.3613163, section 2.1.

#include "head_of_line/experiment.hpp"

#include "common/command_line.hpp"
#include "common/main.hpp"
#include "common/progress.hpp"
#include "common/save.hpp"
#include "common/values.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

namespace {

using namespace head_of_line;
using nlohmann::ordered_json;

struct options {
  experiment e;
  std::vector<std::uint32_t> queues;
  std::filesystem::path json;
  bool progress = false;
};

/// Each of --queues runs them twice, at about 2 million a second.
constexpr double most_kernels = 2e7;

std::optional<options> parse(int argc, char** argv) {
  options o;
  std::string queues = "8,32,128", jobs = std::to_string(o.e.jobs),
              kernels = std::to_string(o.e.kernels), threads = std::to_string(o.e.threads),
              kernel_us = fmt::format("{}", o.e.kernel_us), json;
  bool no_progress = false;
  CLI::App app(
      "Jobs that run at once on a simulated H200, by hardware queues and submission order.\n"
      "Exit code: 0; 1 for a failure while running; 2 for a usage or input error.");
  app.name("head_of_line");
  const auto add = [&](const char* name, std::string& word, const char* about) {
    app.add_option(name, word, about)->capture_default_str();
  };
  add("--queues", queues, "hardware queues, a run each: N,...");
  add("--jobs", jobs, "jobs, each on a stream of its own");
  add("--kernels", kernels, "kernels of a job");
  add("--threads", threads, "of a kernel's one block");
  add("--kernel-us", kernel_us, "time of a kernel");
  add("--json", json, "write the figures to this file");
  app.add_flag("--no-progress", no_progress, "no progress bar on a terminal");
  if (!common::parse(app, argc, argv)) return std::nullopt;
  const auto count = [](const char* option, const std::string& word, std::uint32_t most) {
    return static_cast<std::uint32_t>(common::to_count(option, word, 1, most));
  };
  o.queues = common::to_counts("--queues", queues, 1, 1024);
  o.e.jobs = count("--jobs", jobs, 65536);
  o.e.kernels = count("--kernels", kernels, 10000);
  o.e.threads = count("--threads", threads, 1024);
  o.e.kernel_us = common::to_number("--kernel-us", kernel_us, {0.1, 1e6, false, "microseconds"});
  if (const double all = static_cast<double>(o.e.jobs) * o.e.kernels; all > most_kernels)
    common::refuse("--jobs",
                   fmt::format("{} of {} kernels are {:.0f} kernels", o.e.jobs, o.e.kernels, all),
                   fmt::format("at most {:.0f}", most_kernels));
  o.json = json;
  common::check_outputs({{"--json", o.json}});
  o.progress = !no_progress && isatty(STDERR_FILENO) == 1;
  return o;
}

int serve(const options& o) {
  const experiment& e = o.e;
  ordered_json runs;
  fmt::print("jobs at once, of {} with {} kernels of {} us\n", e.jobs, e.kernels, e.kernel_us);
  fmt::print("{:>8} {:>12} {:>12}\n", "queues", "job by job", "interleaved");
  for (const std::uint32_t q : o.queues) {
    const auto at_once = [&](order how, const char* label) {
      common::progress_bar bar(fmt::format("{} queues, {}", q, label), e.jobs, o.progress);
      return jobs_at_once(e, q, how, [&](std::uint64_t done) { bar.update(done); });
    };
    const double by_job = at_once(order::job_by_job, "by job");
    const double mixed = at_once(order::interleaved, "mixed");
    fmt::print("{:>8} {:>12.1f} {:>12.1f}\n", q, by_job, mixed);
    runs.push_back({{"queues", q}, {"job_by_job", by_job}, {"interleaved", mixed}});
  }
  if (!o.json.empty())
    common::save(o.json, [&](std::ostream& to) {
      to << ordered_json{{"device", "sim:h200"},
                         {"jobs", e.jobs},
                         {"kernels", e.kernels},
                         {"kernel_us", e.kernel_us},
                         {"runs", runs}}
                .dump(2)
         << '\n';
    });
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  return common::run_main("head_of_line", argc, argv, parse, serve);
}

// SPDX-License-Identifier: Apache-2.0
// Head-of-line blocking of many small jobs in few hardware queues. Each job is a chain of kernels,
// each too small to fill the GPU, on a stream of its own. Submitted job by job, the head of a queue
// waits for the kernel before it and blocks all jobs behind it; submitted one kernel at a time, at
// the end of the one before, no kernel waits in a queue. Prints how many jobs run at once either
// way.
// Source: Paella, SOSP 2023, doi:10.1145/3600006.3613163, section 2.1.

#include "head_of_line/experiment.hpp"

#include "common/cli/command_line.hpp"
#include "common/cli/device_option.hpp"
#include "common/cli/main.hpp"
#include "common/cli/option_values.hpp"
#include "common/cli/output_options.hpp"
#include "common/report/progress.hpp"
#include "common/report/save.hpp"
#include "common/run/simulated_backend.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <cstdio>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

namespace {

using namespace head_of_line;
using nlohmann::ordered_json;

struct options : common::device_choice, common::outputs {
  experiment e;
  std::vector<std::uint32_t> hardware_queues;
};

/// Each of --queues runs them twice, at about 2 million a second.
constexpr double most_kernels = 2e7;

std::optional<options> parse(int argc, char** argv) {
  options o;
  std::string queues = "8,32,128", jobs = std::to_string(o.e.jobs),
              kernels = std::to_string(o.e.kernels), threads = std::to_string(o.e.threads),
              kernel_us = fmt::format("{}", o.e.kernel_us);
  common::device_option device({.gpu = false});
  common::output_options output;
  common::command_line line("head_of_line",
                            "Counts the jobs that run at once on a simulated GPU, by hardware "
                            "queues and submission order.",
                            R"(
Each job is a chain of small kernels on a stream of its own. Submitted job by job, the head of a
hardware queue waits for the kernel before it and blocks the jobs behind it; interleaved, a kernel
is submitted when the one before it has ended, and no queue ever blocks.

Examples
  head_of_line
      8, 32 and 128 hardware queues
  head_of_line --queues 8 --jobs 64 --kernel-us 20
      fewer jobs of shorter kernels

Exit code: 0; 1 for a failure while running; 2 for a usage or input error, reported in one line.)");
  line.option("--queues", queues, "N,...", "Hardware queues, a run for each number");
  line.option("--jobs", jobs, "N", "Jobs, each on a stream of its own");
  line.option("--kernels", kernels, "N", "Kernels of a job");
  line.option("--threads", threads, "N", "Threads of a kernel, which has one block");
  line.option("--kernel-us", kernel_us, "US", "Time of a kernel");
  device.declare(line);
  output.declare(line, {.json = "All figures"});
  if (!line.parse(argc, argv)) return std::nullopt;
  device.read(o);
  o.hardware_queues = common::to_counts("--queues", queues, 1, 1024);
  o.e.jobs = common::to_small_count("--jobs", jobs, 1, 65536);
  o.e.kernels = common::to_small_count("--kernels", kernels, 1, 10000);
  o.e.threads = common::to_small_count("--threads", threads, 1, 1024);
  o.e.kernel_us = common::to_number("--kernel-us", kernel_us, {0.1, 1e6, false, "microseconds"});
  if (const double all = static_cast<double>(o.e.jobs) * o.e.kernels; all > most_kernels)
    common::refuse("--jobs",
                   fmt::format("{} of {} kernels are {:.0f} kernels", o.e.jobs, o.e.kernels, all),
                   fmt::format("at most {:.0f}", most_kernels));
  output.read(o);
  return o;
}

int serve(const options& o) {
  const experiment& e = o.e;
  const gsched::sim::preset device = common::simulated_gpu_of(o).preset;
  ordered_json runs;
  if (!o.quiet) {
    fmt::print("jobs at once, of {} with {} kernels of {} us\n", e.jobs, e.kernels, e.kernel_us);
    fmt::print("{:>8} {:>12} {:>12}\n", "queues", "job by job", "interleaved");
  }
  for (const std::uint32_t q : o.hardware_queues) {
    const auto at_once = [&](order how, const char* label) {
      common::progress_bar bar(fmt::format("{} queues, {}", q, label), e.jobs, o.progress);
      return jobs_at_once(device, e, q, how, [&](std::uint64_t done) { bar.update(done); });
    };
    const double by_job = at_once(order::job_by_job, "by job");
    const double mixed = at_once(order::interleaved, "mixed");
    if (!o.quiet) fmt::print("{:>8} {:>12.1f} {:>12.1f}\n", q, by_job, mixed);
    runs.push_back({{"queues", q}, {"job_by_job", by_job}, {"interleaved", mixed}});
  }
  if (!o.json.empty())
    common::save(o.json, [&](std::ostream& to) {
      to << ordered_json{{"device", o.device},
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

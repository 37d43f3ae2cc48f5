// SPDX-License-Identifier: Apache-2.0
// The effect of few hardware queues on many small jobs, on a GPU: each job is a chain of kernels of
// one block. Compares jobs that are submitted at their arrival, each on its own stream, with jobs
// that a dispatcher schedules; by the number of concurrent jobs, and by p99 latency against load.
// Source: Paella, SOSP 2023, doi:10.1145/3600006.3613163, section 2.1, figure 2.

#include "head_of_line/run.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <string>

int main(int argc, char** argv) {
  head_of_line::run_options o;
  bool list = false;
  bool with_sweep = false;
  bool quick = false;
  std::string child;
  CLI::App app("Jobs of small kernels: how many run at once, and p99 latency against load.");
  app.add_option("--only", o.only, "only ways whose name contains one of these")->delimiter(',');
  app.add_flag("--list", list, "print the ways' names");
  app.add_option("--json", o.json, "write the figures to this file");
  app.add_flag("--capacity-only", o.capacity_only, "jobs at once, and no latencies");
  app.add_flag("--quick", quick, "loads of 0.2 s");
  const auto add = [&](const char* name, auto& value, auto least, auto most, const char* about) {
    app.add_option(name, value, about)->check(CLI::Range(least, most))->capture_default_str();
  };
  add("--load-seconds", o.seconds, 0.05, 60.0, "of each load");
  add("--kernels", o.job.kernels, 1u, 1000u, "of a job");
  add("--kernel-us", o.job.kernel_us, 5.0, 1e5, "time of a kernel");
  add("--gpu", o.gpu, 0, 1024, "the GPU's number");
  app.add_option("--child", child)->group("");
  app.add_flag("--sweep", with_sweep)->group("");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& wrong) {
    if (wrong.get_exit_code() == 0) return app.exit(wrong);
    fmt::print(stderr, "gsched.gpu.head_of_line: {}\n", wrong.what());
    return 2;
  }
  if (quick) o.seconds = 0.2;
  try {
    if (list) {
      for (const head_of_line::way& w : head_of_line::all_ways()) fmt::print("{}\n", w.name);
      return 0;
    }
    if (!child.empty()) return head_of_line::run_child(child, with_sweep, o);
    return head_of_line::run_all(o);
  } catch (const std::exception& wrong) {
    fmt::print(stderr, "gsched.gpu.head_of_line: {}\n", wrong.what());
    return 1;
  }
}

// SPDX-License-Identifier: Apache-2.0
// The host time of the dispatcher and of the CUDA device for a segment, beyond the driver's own
// calls: jobs of stand-ins of a profiled model through the full dispatcher, under srpt+deficit.
// Time in device.wait is not included.

#include "dispatcher_host_time/run.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <exception>

int main(int argc, char** argv) {
  host_time::run_options o;
  o.profile = GSCHED_DATA_DIR "/profiles/resnet50_b1.json";
  bool quick = false;
  CLI::App app("Host time of dispatcher and CUDA device a segment, beyond the driver's calls.");
  app.add_option("--profile", o.profile, "the model's profile")->capture_default_str();
  app.add_option("--jobs", o.jobs, "jobs active at once")
      ->delimiter(',')
      ->check(CLI::Range(1u, 100000u))
      ->capture_default_str();
  app.add_option("--segments", o.segments, "of each run")
      ->check(CLI::Range(std::uint64_t{100}, std::uint64_t{100'000'000}))
      ->capture_default_str();
  app.add_option("--runs", o.runs, "of each number of jobs, in turn")
      ->check(CLI::Range(1u, 10000u))
      ->capture_default_str();
  app.add_option("--copies", o.copies, "graphs of each range: launches of it in flight at once")
      ->check(CLI::Range(1u, 64u))
      ->capture_default_str();
  app.add_flag("--instrumented", o.instrumented, "kernels report their blocks");
  app.add_option("--gpu", o.gpu, "the GPU's number")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  app.add_option("--json", o.json, "write the figures to this file");
  app.add_flag("--quick", quick, "3 runs of 1000 segments");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& wrong) {
    if (wrong.get_exit_code() == 0) return app.exit(wrong);
    fmt::print(stderr, "gsched.gpu.dispatcher_host_time: {}\n", wrong.what());
    return 2;
  }
  if (quick) {
    o.runs = 3;
    o.segments = 1000;
  }
  try {
    host_time::run(o);
    return 0;
  } catch (const std::exception& wrong) {
    fmt::print(stderr, "gsched.gpu.dispatcher_host_time: {}\n", wrong.what());
    return 1;
  }
}

// SPDX-License-Identifier: Apache-2.0
// The cost and gain of padded kernels: proxies without co-runners, real-time kernels with each
// co-runner that the rules select, matrix products with copies, the host's part, and whole programs
// of stand-ins.

#include "padding/run.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdio>
#include <exception>

int main(int argc, char** argv) {
  padding::run_options o;
  o.profiles = GSCHED_DATA_DIR "/profiles";
  o.coefficients = GSCHED_DATA_DIR "/interference/h200.json";
  CLI::App app("Padded kernels on a GPU, beside plain ones.");
  app.add_option("--parts", o.parts, "which of them to run")
      ->delimiter(',')
      ->check(CLI::IsMember({"overhead", "pairs", "fused", "selection", "programs"}))
      ->capture_default_str();
  app.add_option("--rounds", o.rounds, "of each figure")
      ->check(CLI::Range(5u, 100u))
      ->capture_default_str();
  app.add_option("--bandwidth-share", o.bandwidth_share,
                 "the part of the copies' rate that both may move together")
      ->check(CLI::Range(0.01, 2.0))
      ->capture_default_str();
  app.add_option("--time-share", o.time_share,
                 "the part of the real-time kernel's time that best-effort blocks may use")
      ->check(CLI::Range(0.01, 1.0))
      ->capture_default_str();
  app.add_option("--seconds", o.seconds,
                 "for the counters and the pairs; those beyond are left out")
      ->check(CLI::Range(1.0, 1e5))
      ->capture_default_str();
  app.add_option("--profiles", o.profiles, "folder of profiles")->capture_default_str();
  app.add_option("--real-time", o.real_time, "programs: files there, without .json")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--best-effort", o.best_effort, "programs: files there, one for each of those")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--corunners", o.corunners, "programs: so many of the best-effort one at once")
      ->delimiter(',')
      ->check(CLI::Range(1u, 4u))
      ->capture_default_str();
  app.add_option("--gpu", o.gpu, "the GPU's number")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  app.add_option("--json", o.json, "write the figures to this file");
  app.add_option("--facts", o.facts, "write each pair's facts and times to this file, as CSV");
  app.add_option("--counters", o.counters,
                 "pairs: write all kernels with their counters to this file, as a profile");
  app.add_option("--coefficients", o.coefficients,
                 "pairs: those of the law that predicts slow-downs, as a JSON file")
      ->capture_default_str();
  app.add_flag("--quick", o.quick, "one shape of each function, fewer rounds");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& wrong) {
    if (wrong.get_exit_code() == 0) return app.exit(wrong);
    fmt::print(stderr, "gsched.gpu.padding: {}\n", wrong.what());
    return 2;
  }
  if (o.real_time.size() != o.best_effort.size()) {
    fmt::print(stderr,
               "gsched.gpu.padding: --best-effort: {} programs, expected one for each of {} "
               "real-time ones\n",
               o.best_effort.size(), o.real_time.size());
    return 2;
  }
  if (o.quick) o.rounds = 9;
  try {
    padding::run(o);
    return 0;
  } catch (const std::exception& wrong) {
    fmt::print(stderr, "gsched.gpu.padding: {}\n", wrong.what());
    return 1;
  }
}

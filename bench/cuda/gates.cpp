// SPDX-License-Identifier: Apache-2.0
// The cost of gates that stay open, the time until a lane stops and resumes, and the effect of a
// best-effort lane on a real-time graph: alone, with priorities only, and with a lane that yields.

#include "gates/run.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdio>
#include <exception>

int main(int argc, char** argv) {
  gates::run_options o;
  o.profiles = GSCHED_DATA_DIR "/profiles";
  bool quick = false;
  CLI::App app("Gates between a graph's kernels, on a GPU.");
  app.add_option("--profiles", o.profiles, "folder of profiles")->capture_default_str();
  app.add_option("--models", o.models, "best-effort models: files there, without .json")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--real-time", o.real_time, "the real-time model")->capture_default_str();
  app.add_option("--every", o.every, "a gate beside every so many kernels")
      ->delimiter(',')
      ->check(CLI::Range(1u, 64u))
      ->capture_default_str();
  const auto add = [&](const char* name, auto& value, auto least, auto most, const char* about) {
    app.add_option(name, value, about)->check(CLI::Range(least, most))->capture_default_str();
  };
  add("--runs", o.runs, 5u, 100000u, "of each variant, in turn");
  add("--yields", o.yields, 10u, 1000000u, "for the latencies");
  add("--requests", o.requests, 10u, 100000u, "real-time ones, of each mode, in turn");
  add("--gpu", o.gpu, 0, 1024, "the GPU's number");
  app.add_option("--json", o.json, "write the figures to this file");
  app.add_flag("--quick", quick, "one model, few runs");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& wrong) {
    if (wrong.get_exit_code() == 0) return app.exit(wrong);
    fmt::print(stderr, "gsched.gpu.gates: {}\n", wrong.what());
    return 2;
  }
  if (quick) {
    o.models = {"resnet50_b8"};
    o.runs = 15;
    o.yields = 200;
    o.requests = 60;
  }
  try {
    gates::run(o);
    return 0;
  } catch (const std::exception& wrong) {
    fmt::print(stderr, "gsched.gpu.gates: {}\n", wrong.what());
    return 1;
  }
}

// SPDX-License-Identifier: Apache-2.0
// The time until the first request of a new plan runs on its partitions, whose SMs requests of the
// last plan still use: with contexts created in advance, and with contexts created then.

#include "plan_switch/run.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdlib>
#include <exception>
#include <string>

int main(int argc, char** argv) {
  plan_switch::run_options o;
  o.profiles = GSCHED_DATA_DIR "/profiles";
  unsigned queues = 32;
  CLI::App app("Switches between two plans of partitions, on a GPU.");
  app.add_option("--profiles", o.profiles, "folder of profiles")->capture_default_str();
  app.add_option("--model", o.model, "file there, without .json")->capture_default_str();
  app.add_option("--switches", o.switches, "with contexts ready")
      ->check(CLI::Range(10u, 100000u))
      ->capture_default_str();
  app.add_option("--created", o.created, "with contexts made then")
      ->check(CLI::Range(3u, 10000u))
      ->capture_default_str();
  app.add_option("--gpu", o.gpu, "the GPU's number")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  app.add_option("--queues", queues, "hardware queues of the process: CUDA_DEVICE_MAX_CONNECTIONS")
      ->check(CLI::Range(1u, 32u))
      ->capture_default_str();
  app.add_option("--json", o.json, "write the figures to this file");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& wrong) {
    if (wrong.get_exit_code() == 0) return app.exit(wrong);
    fmt::print(stderr, "gsched.gpu.plan_switch: {}\n", wrong.what());
    return 2;
  }
  try {
    // The driver reads it once, at its start; no CUDA call was made before.
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", std::to_string(queues).c_str(), 1);
    plan_switch::run(o);
    return 0;
  } catch (const std::exception& wrong) {
    fmt::print(stderr, "gsched.gpu.plan_switch: {}\n", wrong.what());
    return 1;
  }
}

// SPDX-License-Identifier: Apache-2.0
// The SMs on which a process's kernels run, and the time of a compute-bound kernel there: one of
// the processes that bench/cuda/mps_sms.py runs under MPS, or alone. Its parts are streams that
// share its SMs, or partitions with SMs of their own.

#include "mps_sms/run.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <exception>

int main(int argc, char** argv) {
  mps_sms::run_options o;
  CLI::App app(
      "The SMs on which a process's kernels run. Each part holds blocks on all SMs that it\n"
      "gets, at the same time; a line of JSON says which SMs these were.\n"
      "Example: CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=50 gsched.gpu.mps_sms --seconds 2");
  const auto add = [&](const char* name, auto& value, auto least, auto most, const char* about) {
    app.add_option(name, value, about)->check(CLI::Range(least, most))->capture_default_str();
  };
  add("--seconds", o.seconds, 0.01, 600., "that blocks stay on their SMs");
  add("--parts", o.parts, 1u, 16u, "streams of this process, each with kernels of its own");
  app.add_option("--shares", o.shares,
                 "percent of the SMs for each of several partitions, in place of --parts")
      ->delimiter(',')
      ->check(CLI::Range(1u, 100u));
  add("--blocks", o.blocks, 1u, 16u, "held for each SM");
  add("--victim-us", o.victim_us, 10., 1e5, "length of the kernel that is timed");
  add("--gpu", o.gpu, 0, 1024, "the GPU's number");
  app.add_flag("--commands", o.commands,
               "do as the lines of standard input say, in place of --seconds: hold PART SECONDS, "
               "release PART, replay PART MS; a line of JSON answers each");
  app.add_option("--json", o.json, "write the SMs to this file, too");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& wrong) {
    if (wrong.get_exit_code() == 0) return app.exit(wrong);
    fmt::print(stderr, "gsched.gpu.mps_sms: {}\n", wrong.what());
    return 2;
  }
  try {
    mps_sms::run(o);
    return 0;
  } catch (const mps_sms::bad_input& wrong) {
    fmt::print(stderr, "gsched.gpu.mps_sms: {}\n", wrong.what());
    return 2;
  } catch (const std::exception& wrong) {
    fmt::print(stderr, "gsched.gpu.mps_sms: {}\n", wrong.what());
    return 1;
  }
}

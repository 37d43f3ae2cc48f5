// SPDX-License-Identifier: Apache-2.0
// Preemption of preemptible kernels on a GPU: the time until all blocks of a kernel that fills it
// have exited, until an urgent kernel runs, and until the kernel continues; the cost for kernels
// that are not preempted; and whether results equal those of undisturbed runs, bit by bit.
//
// Source   Han et al., ACM TOCS 44(1), 2025, doi:10.1145/3768622, section 4 and figures 17 to 20.

#include "preemption/run.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdio>
#include <exception>

int main(int argc, char** argv) {
  preemption_bench::options o;
  bool quick = false;
  CLI::App app("How fast kernels leave a GPU and come back, and what it costs.");
  const auto add = [&](const char* name, auto& value, auto least, auto most, const char* about) {
    return app.add_option(name, value, about)
        ->check(CLI::Range(least, most))
        ->capture_default_str();
  };
  add("--repeats", o.repeats, 10u, 1'000'000u, "of each latency");
  add("--rounds", o.rounds, 5u, 100'000u, "of each cost, the variants in turn");
  add("--preemptions", o.preemptions, 10u, 100'000'000u, "with results compared");
  add("--step", o.step, 100u, 1'000'000u, "cycles between checkpoints");
  add("--gpu", o.gpu, 0, 1024, "the GPU's number");
  app.add_flag("--quick", quick, "few repetitions");
  app.add_option("--json", o.json, "write the figures to this file");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& wrong) {
    if (wrong.get_exit_code() == 0) return app.exit(wrong);
    fmt::print(stderr, "gsched.gpu.preemption: {}\n", wrong.what());
    return 2;
  }
  if (quick) {
    o.repeats = 200;
    o.rounds = 10;
    o.preemptions = 300;
  }
  try {
    preemption_bench::run(o);
    return 0;
  } catch (const std::exception& wrong) {
    fmt::print(stderr, "gsched.gpu.preemption: {}\n", wrong.what());
    return 1;
  }
}

// SPDX-License-Identifier: Apache-2.0
// The cost of instrumentation on a GPU: an empty kernel from launch to synchronisation, and short
// kernels back to back; without reports, with one word for every block, with one for groups of 16,
// and with alternative implementations. All variants are interleaved in one process.
//
// Source   Paella, SOSP 2023, doi:10.1145/3600006.3613163, figure 15.

#include "instrumentation/run.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdio>
#include <exception>

int main(int argc, char** argv) {
  instrumentation::options o;
  bool quick = false;
  CLI::App app("What instrumentation costs a kernel, on a GPU.");
  const auto add = [&](const char* name, auto& value, auto least, auto most, const char* about) {
    return app.add_option(name, value, about)
        ->check(CLI::Range(least, most))
        ->capture_default_str();
  };
  add("--blocks", o.blocks, 1u, 1u << 20, "sizes of the grid")->delimiter(',');
  add("--threads", o.threads, 1u, 1024u, "of a block, such as 32,128,1024")->delimiter(',');
  add("--repetitions", o.repetitions, 10u, 1'000'000u, "launches of each variant, one at a time");
  add("--launches", o.launches, 1u, 100'000u, "back to back");
  add("--rounds", o.rounds, 3u, 100'000u, "of those, each variant");
  add("--kernel-us", o.kernel_us, 0.0, 1000.0, "what such a kernel takes");
  add("--nap-ns", o.nap_ns, 0u, 10'000u, "its sleep between two looks at the clock; 0: it spins");
  add("--seconds", o.seconds, 1.0, 1e5, "begin nothing further after that time");
  add("--gpu", o.gpu, 0, 1024, "the GPU's number");
  app.add_flag("--rivals", o.rivals, "other ways of doing it, too");
  app.add_flag("--quick", quick, "few repetitions");
  app.add_option("--json", o.json, "write the figures to this file");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& wrong) {
    if (wrong.get_exit_code() == 0) return app.exit(wrong);
    fmt::print(stderr, "gsched.gpu.instrumentation: {}\n", wrong.what());
    return 2;
  }
  if (quick) {
    o.repetitions = 200;
    o.rounds = 5;
  }
  try {
    instrumentation::run(o);
    return 0;
  } catch (const std::exception& wrong) {
    fmt::print(stderr, "gsched.gpu.instrumentation: {}\n", wrong.what());
    return 1;
  }
}

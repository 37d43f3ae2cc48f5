// SPDX-License-Identifier: Apache-2.0
// The cost of running graphs with forks in segments, with and without gates: time relative to one
// launch of the whole graph. A chain of small kernels is the reference.

#include "forks/run.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdio>
#include <exception>

int main(int argc, char** argv) {
  forks::run_options o;
  CLI::App app("Graphs that fork, run whole and in segments, on a GPU.");
  const auto add = [&](const char* name, auto& value, auto least, auto most, const char* about) {
    app.add_option(name, value, about)->check(CLI::Range(least, most))->capture_default_str();
  };
  app.add_option("--graphs", o.graphs,
                 "products, lstm, inception, random1 to random4, chain; default: all")
      ->delimiter(',');
  add("--repeats", o.repeats, 5u, 100000u, "of each variant, in turn");
  add("--grain", o.grain_us, 5., 1e5, "of segments, us");
  add("--most", o.most_us, 5., 1e6, "up to which segments grow, us");
  add("--ahead", o.ahead, 1u, 16u, "segments in flight");
  add("--gate-every", o.gate_every, 1u, 64u, "a gate beside every so many kernels");
  add("--seconds", o.seconds, 1., 1e5, "graphs that do not fit in are left out");
  add("--strict", o.strict, 0., 100., "exit with 1 where a median ratio is above this; 0: never");
  add("--gpu", o.gpu, 0, 1024, "the GPU's number");
  app.add_option("--json", o.json, "write the figures to this file, as they come");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& wrong) {
    if (wrong.get_exit_code() == 0) return app.exit(wrong);
    fmt::print(stderr, "gsched.gpu.forks: {}\n", wrong.what());
    return 2;
  }
  try {
    return forks::run(o) ? 0 : 1;
  } catch (const std::exception& wrong) {
    fmt::print(stderr, "gsched.gpu.forks: {}\n", wrong.what());
    return 1;
  }
}

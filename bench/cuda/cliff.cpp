// SPDX-License-Identifier: Apache-2.0
// The cliff: after some direct kernel launches on streams beyond the first, every graph replay in
// the process is slower. The state belongs to the process, so each experiment is a fresh process:
// it replays reference graphs, performs operations that may cross the cliff, and replays them
// again.

#include "cliff/experiments.hpp"
#include "cliff/run.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <string>

int main(int argc, char** argv) {
  cliff::run_options o;
  bool list = false;
  std::string child;
  std::string helper;
  CLI::App app("What makes every later graph replay of a process slower, and what cures it.");
  app.add_option("--only", o.only, "only experiments whose name contains one of these")
      ->delimiter(',');
  app.add_flag("--list", list, "print the experiments' names");
  app.add_option("--json", o.json, "append a line of JSON for each experiment to this file");
  app.add_option("--seconds", o.seconds, "start no further experiment after that time")
      ->check(CLI::Range(1.0, 1e5))
      ->capture_default_str();
  app.add_option("--gpu", cliff::this_program().gpu, "the GPU's number")
      ->check(CLI::Range(0, 1024));
  app.add_option("--child", child)->group("");
  app.add_option("--helper", helper)->group("");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& wrong) {
    if (wrong.get_exit_code() == 0) return app.exit(wrong);
    fmt::print(stderr, "gsched.gpu.cliff: {}\n", wrong.what());
    return 2;
  }
  try {
    cliff::this_program().path = "/proc/self/exe";
    if (list) {
      for (const cliff::experiment_case& c : cliff::all_cases()) fmt::print("{}\n", c.name);
      return 0;
    }
    if (!helper.empty()) return cliff::run_helper(helper, cliff::this_program().gpu);
    if (!child.empty()) return cliff::run_child(child);
    return cliff::run_all(o);
  } catch (const std::exception& wrong) {
    fmt::print(stderr, "gsched.gpu.cliff: {}\n", wrong.what());
    return 1;
  }
}

// SPDX-License-Identifier: Apache-2.0
// What a graph that is held at a gate blocks: hardware queues, block slots of SMs, CUDA calls of
// other threads. Also the cost of open gates, and the effect of building graphs on another thread's
// launches. Raw CUDA, without the library's device: the behaviour of the hardware and the driver.

#include "standing/run.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  standing::run_options o;
  bool list = false;
  std::string child;
  std::vector<std::string> cases;
  CLI::App app("What a CUDA graph that stands at a gate keeps from other work, and what waits for "
               "it.");
  app.add_option("--parts", o.parts, "which of them to run")
      ->delimiter(',')
      ->check(CLI::IsMember(o.parts))
      ->capture_default_str();
  app.add_option("--only", o.only, "only cases whose name contains one of these")->delimiter(',');
  app.add_flag("--list", list, "print the parts' cases");
  CLI::Option* connections = app.add_option("--connections", o.connections,
                                            "for the queues: values of CUDA_DEVICE_MAX_CONNECTIONS")
                                 ->delimiter(',')
                                 ->check(CLI::Range(1u, 32u))
                                 ->capture_default_str();
  app.add_option("--seconds", o.seconds,
                 "start no further part, or kind of queues, after that time")
      ->check(CLI::Range(1.0, 1e5))
      ->capture_default_str();
  app.add_option("--gpu", o.gpu, "the GPU's number")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  app.add_option("--json", o.json, "write the figures to this file");
  app.add_flag("--quick", o.quick, "8 connections, fewer kinds of graphs, fewer runs");
  app.add_option("--child", child)->group("");
  app.add_option("--case", cases)->group("");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& wrong) {
    if (wrong.get_exit_code() == 0) return app.exit(wrong);
    fmt::print(stderr, "gsched.gpu.standing: {}\n", wrong.what());
    return 2;
  }
  if (o.quick && connections->count() == 0) o.connections = {8};
  try {
    if (list) {
      for (const standing::part& p : standing::all_parts())
        for (const std::string& name : p.cases(o)) fmt::print("{}: {}\n", p.name, name);
      return 0;
    }
    if (!child.empty()) return standing::run_child(child, cases, o);
    return standing::run_all(o);
  } catch (const std::exception& wrong) {
    fmt::print(stderr, "gsched.gpu.standing: {}\n", wrong.what());
    return 1;
  }
}

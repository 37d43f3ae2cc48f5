// SPDX-License-Identifier: Apache-2.0
// Graphs of short kernels with sets and copies between them, once as nodes of the driver and once
// as kernels: alone, and beside graphs of long kernels on other SMs and on the same ones. The
// number of hardware queues is that of CUDA_DEVICE_MAX_CONNECTIONS.

#include "memory_nodes/run.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdio>
#include <exception>

int main(int argc, char** argv) {
  memory_nodes::run_options o;
  CLI::App app("Sets and copies of a graph, as nodes and as kernels, beside other graphs.");
  const auto add = [&](const char* name, auto& value, auto least, auto most, const char* about) {
    app.add_option(name, value, about)->check(CLI::Range(least, most))->capture_default_str();
  };
  add("--seconds", o.seconds, 0., 1e5, "no turn begins later; the first one runs anyway");
  add("--kernels", o.kernels, 1u, 10000u, "of a graph that is measured");
  add("--kernel-us", o.kernel_us, 1., 1e4, "the time of each");
  add("--neighbours", o.neighbours, 1u, 8u, "graphs of long kernels, which share the other SMs");
  add("--long-kernels", o.long_kernels, 1u, 10000u, "of a neighbour");
  add("--long-kernel-us", o.long_kernel_us, 1., 1e4, "the time of each");
  add("--small", o.small, 1u, 1u << 20, "bytes of a small set or copy");
  add("--large", o.large, 1u, 1u << 30, "bytes of a large set");
  add("--sms", o.sms, 0u, 100000u, "of the graph that is measured; 0: half of them");
  add("--gpu", o.gpu, 0, 1024, "the GPU's number");
  app.add_option("--json", o.json, "write the figures to this file, turn by turn");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& wrong) {
    if (wrong.get_exit_code() == 0) return app.exit(wrong);
    fmt::print(stderr, "gsched.gpu.memory_nodes: {}\n", wrong.what());
    return 2;
  }
  try {
    memory_nodes::run(o);
    return 0;
  } catch (const std::exception& wrong) {
    fmt::print(stderr, "gsched.gpu.memory_nodes: {}\n", wrong.what());
    return 1;
  }
}

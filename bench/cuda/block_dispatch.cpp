// SPDX-License-Identifier: Apache-2.0
// The benefit of accounting by blocks on a GPU: jobs of three tenants, kernel by kernel through a
// dispatcher that counts blocks on SMs, the fill of segments, or nothing; and submitted directly to
// the driver. Source: Paella, SOSP 2023, doi:10.1145/3600006.3613163, sections 4.1 and 6 (3).

#include "block_dispatch/mix.hpp"
#include "block_dispatch/run.hpp"
#include "block_dispatch/way.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <exception>

int main(int argc, char** argv) {
  block_dispatch::run_options o;
  bool list = false;
  CLI::App app("Latency and throughput of three tenants, by how the GPU's occupancy is counted.");
  app.add_option("--mixes", o.mixes, "names, comma-separated; all of --list unless given")
      ->delimiter(',');
  app.add_option("--ways", o.ways, "names, comma-separated; all of --list unless given")
      ->delimiter(',');
  app.add_option("--loads", o.loads, "of the GPU's time, comma-separated")
      ->delimiter(',')
      ->check(CLI::Range(0.01, 10.0))
      ->capture_default_str();
  app.add_flag("--list", list, "print the names of mixes and ways");
  app.add_option("--json", o.json, "write the figures to this file");
  const auto add = [&](const char* name, auto& value, auto least, auto most, const char* about) {
    app.add_option(name, value, about)->check(CLI::Range(least, most))->capture_default_str();
  };
  add("--seconds", o.seconds, 0.05, 60.0, "of each load");
  add("--turns", o.turns, 1u, 100u, "of each load and way, interleaved");
  add("--lanes", o.lanes, 1u, 64u, "of the dispatcher; streams of each tenant without one");
  add("--time-limit", o.time_limit, 1.0, 36000.0, "seconds; no further load begins then");
  add("--gpu", o.gpu, 0, 1024, "the GPU's number");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& wrong) {
    if (wrong.get_exit_code() == 0) return app.exit(wrong);
    fmt::print(stderr, "gsched.gpu.block_dispatch: {}\n", wrong.what());
    return 2;
  }
  try {
    if (list) {
      for (const auto& m : block_dispatch::all_mixes()) fmt::print("mix {}\n", m.name);
      for (const auto& w : block_dispatch::all_ways()) fmt::print("way {}\n", w.name);
      return 0;
    }
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0); // a hardware queue for each lane
    block_dispatch::run(o);
    return 0;
  } catch (const std::exception& wrong) {
    fmt::print(stderr, "gsched.gpu.block_dispatch: {}\n", wrong.what());
    return 1;
  }
}

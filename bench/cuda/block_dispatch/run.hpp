// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace block_dispatch {

struct run_options {
  std::vector<std::string> mixes; ///< empty: all
  std::vector<std::string> ways;  ///< empty: all
  std::vector<double> loads{0.7, 1.0};
  double seconds = 0.5; ///< of each load
  unsigned turns = 5;   ///< of each load and way, interleaved
  unsigned lanes = 16;
  double time_limit = 240; ///< seconds; further work is omitted, with a message
  std::string json;
  int gpu = 0;
};

/// For each mix, load and way: the latency of each tenant's jobs under srpt, and the throughput
/// under fifo with a backlog of all. The ways are interleaved.
void run(const run_options& o);

} // namespace block_dispatch

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
  double time_limit = 240; ///< seconds; what does not fit is left out, and said
  std::string json;
  int gpu = 0;
};

/// For each mix, load and way: latency of each tenant's jobs under srpt, and throughput under fifo
/// with a backlog of all. The ways take turns.
void run(const run_options& o);

} // namespace block_dispatch

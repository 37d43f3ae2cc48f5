// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace host_time {

struct run_options {
  std::filesystem::path profile;
  std::vector<unsigned> jobs{1, 8, 64}; ///< active at once
  std::uint64_t segments = 5000;        ///< of each run
  unsigned runs = 9;                    ///< of each number of jobs, interleaved
  unsigned copies = 4;                  ///< graphs of each range
  bool instrumented = false;
  std::string json;
  int gpu = 0;
};

/// Prints a line for each run, then the table of medians. Throws if jobs or segments were lost.
void run(const run_options& o);

} // namespace host_time

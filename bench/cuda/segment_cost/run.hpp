// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace segment_cost {

struct run_options {
  std::filesystem::path profiles;
  std::vector<std::string> models;
  std::vector<double> targets_us{20, 50, 100, 200};
  unsigned most_in_flight = 3;
  unsigned runs = 60; ///< of each variant, interleaved
  double seconds = 400;
  std::string json;
  int gpu = 0;
};

/// A table for each model when it is done, then over all models.
void run(const run_options& o);

} // namespace segment_cost

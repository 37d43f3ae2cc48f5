// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>
#include <vector>

namespace padding {

using results = nlohmann::ordered_json;

struct run_options {
  bool quick = false;
  unsigned rounds = 25;
  double bandwidth_share = 0.5;
  std::vector<std::string> parts{"overhead", "pairs", "fused", "selection", "programs"};
  std::filesystem::path profiles;
  std::string real_time = "resnet18_b1";
  std::string best_effort = "resnet50_b1";
  double seconds = 25; ///< for the pairs
  std::string json;
  std::string facts; ///< of the pairs, as CSV
  int gpu = 0;
};

void run(const run_options& o);

} // namespace padding

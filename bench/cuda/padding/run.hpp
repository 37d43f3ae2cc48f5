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
  double time_share = 0.9;
  std::vector<std::string> parts{"overhead", "pairs", "fused", "selection", "programs"};
  std::filesystem::path profiles;
  std::vector<std::string> real_time{"resnet18_b1", "vgg16_b1"};
  std::vector<std::string> best_effort{"resnet50_b1", "resnet50_b8"}; ///< one each
  std::vector<unsigned> corunners{1, 4};
  double seconds = 60;                ///< for the counters and the pairs
  std::filesystem::path coefficients; ///< of the law of contention
  std::string json;
  std::string facts;    ///< of the pairs, as CSV
  std::string counters; ///< of all kernels, as a profile
  int gpu = 0;
};

void run(const run_options& o);

} // namespace padding

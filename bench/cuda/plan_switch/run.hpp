// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace plan_switch {

struct run_options {
  std::filesystem::path profiles{};
  std::string model = "resnet50_b1";
  unsigned switches = 1000;
  unsigned created = 20;
  int gpu = 0;
  std::filesystem::path json{};
};

/// Prints the figures.
/// Errors   gsched::error, or what the profile's reader throws.
void run(const run_options& o);

} // namespace plan_switch

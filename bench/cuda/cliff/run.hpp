// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace cliff {

struct run_options {
  std::vector<std::string> only;
  std::string json;
  double seconds = 450;
};

/// Runs all experiments, one process and one line each, then prints the thresholds of crossing.
/// Returns the program's exit status.
int run_all(const run_options& o);

/// Runs one experiment in this process; its results go to standard output as one line of JSON.
int run_child(const std::string& name);

} // namespace cliff

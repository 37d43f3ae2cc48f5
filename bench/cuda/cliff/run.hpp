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

/// All experiments, a process each, a line each; then the thresholds between what crossed and what
/// did not. The program's exit status.
int run_all(const run_options& o);

/// One experiment, in this process; its figures go to standard output as one line of JSON.
int run_child(const std::string& name);

} // namespace cliff

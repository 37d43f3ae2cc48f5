// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "head_of_line/way.hpp"

#include <string>
#include <vector>

namespace head_of_line {

struct run_options {
  std::vector<std::string> only; ///< ways whose name contains one of these
  std::string json;
  job_shape job;
  double seconds = 1.0; ///< of a load
  bool capacity_only = false;
  int gpu = 0;
};

/// Each way in a process of its own, because the number of connections is fixed when CUDA starts:
/// first the number of concurrent jobs, then, for the ways of the figure, latency against load.
int run_all(const run_options& o);

/// One way, in this process; results go to standard output as one line of JSON.
int run_child(const std::string& way_name, bool with_sweep, const run_options& o);

} // namespace head_of_line

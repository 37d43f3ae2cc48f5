// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace forks {

struct run_options {
  std::vector<std::string> graphs; ///< names; all if empty
  unsigned repeats = 200;          ///< of each variant, in turn
  double grain_us = 100;
  double most_us = 800; ///< up to which segments grow
  unsigned ahead = 2;   ///< segments in flight
  unsigned gate_every = 2;
  double seconds = 240; ///< graphs that do not fit in are left out
  double strict = 0;    ///< a median ratio above it is an error; 0: none is
  std::string json;
  int gpu = 0;
};

/// Prints a table as it goes. Returns whether all ratios are as they are to be.
/// Errors   gsched::error, also where the memory that the graphs leave is not as expected.
[[nodiscard]] bool run(const run_options& o);

} // namespace forks

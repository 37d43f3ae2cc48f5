// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace forks {

struct run_options {
  std::vector<std::string> graphs; ///< names; all if empty
  unsigned repeats = 200;          ///< of each variant, interleaved
  double grain_us = 100;
  double most_us = 800; ///< limit of the growth of segments
  unsigned ahead = 2;   ///< segments in flight
  unsigned gate_every = 2;
  double seconds = 240; ///< further graphs are omitted
  double strict = 0;    ///< a median ratio above it is an error; 0: none is
  std::string json;
  int gpu = 0;
};

/// Prints a table progressively. Returns whether all ratios are within the limit.
///
/// Errors   gsched::error, also if the memory after a graph is not as expected.
[[nodiscard]] bool run(const run_options& o);

} // namespace forks

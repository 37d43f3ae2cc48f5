// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "case.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace preemption_torture {

struct run_options {
  std::uint64_t preemptions = 100'000; ///< of all settings together
  double seconds = 300;                ///< for the cases; shrinking is additional
  std::uint64_t seed = 1;              ///< of the first case; the others follow it
  std::uint64_t cases = 0;             ///< limit for each setting; 0: none
  case_shape shape{};
  std::vector<unsigned> connections{8, 32};
  double hang_seconds = 2;
  unsigned alone_runs =
      50; ///< of each graph by CUDA alone: if these differ, the case shows nothing
  double shrink_seconds = 60; ///< for each failure
  unsigned failures = 3;      ///< the run ends after that many
  std::string keep = ".";     ///< folder for the text of failing cases
  std::string replay;         ///< a file of cases, in place of random ones
  unsigned repeat = 1;        ///< of each case of that file
  std::string json;
  int gpu = 0;
};

/// Runs cases in their own processes and reports. Returns whether all of them passed.
[[nodiscard]] bool run_all(const run_options& o);

/// One of those processes: runs cases and reports on standard output, a line of JSON each.
[[noreturn]] void run_child(const run_options& o);

} // namespace preemption_torture

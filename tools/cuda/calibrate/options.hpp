// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/sim/preset.hpp>

#include <optional>
#include <string>

namespace calibrate {

struct options {
  int gpu = 0;
  std::optional<gsched::sim::preset> simulated; ///< measured in the simulator, in place of a GPU
  std::string out;                              ///< file for the preset; empty: none
  std::string json;                             ///< file for the table; empty: none
  std::string check;                            ///< preset to compare with this GPU; empty: none
  std::string name;
  std::string date;
  double seconds = 20;
  bool quick = false;
  bool compare = false;
  bool queues = true;
  bool count_queues = false; ///< runs in the child process
};

/// Empty after printing the help.
/// Errors   gsched::error: bad_option or io, one line.
[[nodiscard]] std::optional<options> parse_options(int argc, const char* const* argv);

} // namespace calibrate

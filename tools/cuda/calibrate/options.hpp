// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

namespace calibrate {

struct options {
  int gpu = 0;
  std::string out;      ///< file for the preset; empty: none
  std::string json;     ///< file for the table; empty: none
  std::string check;    ///< preset to compare with this GPU; empty: none
  std::string simulate; ///< preset to measure in the simulator; empty: none
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

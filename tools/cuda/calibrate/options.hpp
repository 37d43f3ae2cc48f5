// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

namespace calibrate {

struct options {
  int gpu = 0;
  std::string out;      ///< the preset; these three: empty for none
  std::string json;     ///< the table
  std::string check;    ///< a preset to be compared with this GPU
  std::string simulate; ///< a preset to be measured as if it were a GPU
  std::string name;
  std::string date;
  double seconds = 20;
  bool quick = false;
  bool compare = false;
  bool queues = true;
  bool count_queues = false; ///< what a second process does
};

/// Nothing when it asked for help, which is then printed.
/// Errors   gsched::error: bad_option or io, one line.
[[nodiscard]] std::optional<options> parse_options(int argc, const char* const* argv);

} // namespace calibrate

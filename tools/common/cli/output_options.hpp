// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/cli/command_line.hpp"
#include "common/cli/files.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace common {

/// What a program writes.
struct outputs {
  std::filesystem::path json; ///< these three: empty for none
  std::filesystem::path trace;
  std::filesystem::path plot;
  bool quiet = false;    ///< no table
  bool progress = false; ///< a progress bar is wanted, and stderr is a terminal
};

/// Help texts of the outputs that a program has; null for those that it lacks.
struct output_help {
  const char* json = "All results";
  const char* trace = nullptr;
  const char* plot = nullptr;
  bool progress = true; ///< the program draws a progress bar
};

/// --json and --quiet, and where a program has them --trace, --plot and --no-progress.
class output_options {
public:
  void declare(command_line& line, const output_help& help = {});

  /// Once all inputs are known: checks the files, with `more`, as check_outputs does, and refuses a
  /// plot whose type cannot be drawn. Errors   gsched::error with one line.
  void read(outputs& into, std::vector<output_option> more = {}) const;

private:
  std::string json_, trace_, plot_;
  bool quiet_ = false, no_progress_ = false, has_progress_ = false;
};

} // namespace common

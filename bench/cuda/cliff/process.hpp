// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

namespace cliff {

/// A child process with a pipe to its standard input and one from its output. Killed if it still
/// runs when this goes.
class process {
public:
  using variables = std::vector<std::pair<std::string, std::string>>;

  /// Throws gsched::error where it cannot be started.
  process(const std::vector<std::string>& command, const variables& environment);
  ~process();
  process(const process&) = delete;
  process& operator=(const process&) = delete;

  /// What it writes until it ends, or a line's end if lines are wanted; false if that takes longer.
  [[nodiscard]] bool read(std::string& into, double seconds, bool one_line = false);
  void close_input();
  /// Its status, once it ended; killed if that takes longer.
  int wait(double seconds);

private:
  pid_t id_ = -1;
  int to_ = -1;
  int from_ = -1;
};

} // namespace cliff

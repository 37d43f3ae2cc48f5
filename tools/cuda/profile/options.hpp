// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda_tools/profiling.hpp>

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

namespace profile_example {

struct options {
  std::string graph;            ///< name of a built-in graph; empty for --replay
  std::filesystem::path replay; ///< a profile's file
  std::size_t elements = std::size_t{1} << 20;
  int gpu = 0;
  std::filesystem::path out; ///< empty: stdout
  double limit_s = 120;
  bool busy = false; ///< measure although the GPU seems to be in use
  gsched::cuda::profiling_options how;
};

/// Empty after printing the help.
/// Errors   gsched::error with one line.
[[nodiscard]] std::optional<options> parse(int argc, const char* const* argv);

} // namespace profile_example

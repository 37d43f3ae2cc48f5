// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda_tools/profiling.hpp>

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

namespace profile_example {

struct options {
  std::string graph;            ///< built in; empty if a profile is replayed
  std::filesystem::path replay; ///< a profile's file
  std::size_t elements = std::size_t{1} << 20;
  int gpu = 0;
  std::filesystem::path out; ///< empty: stdout
  double limit_s = 120;
  gsched::cuda::profiling_options how;
};

/// Nothing when the command line asked for help, which is then printed.
/// Errors   gsched::error with one line.
[[nodiscard]] std::optional<options> parse(int argc, const char* const* argv);

} // namespace profile_example

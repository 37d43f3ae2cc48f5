// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/demand.hpp>
#include <gsched/partition/gpu_shape.hpp>
#include <gsched/partition/latency_table.hpp>

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace plan {

/// Everything that the command line says, read and checked.
struct options {
  std::string table_name;
  std::optional<gsched::latency_table> table;         ///< set
  std::vector<std::vector<gsched::demand>> scenarios; ///< each has all models that take part
  std::vector<gsched::gpu_shape> gpus;
  std::vector<std::string> planners;
  bool max_scale = false; ///< how much more, in place of plans
  std::filesystem::path json;
};

/// Nothing when help was asked for, which is then printed on stdout.
/// Errors   gsched::error with one line.
[[nodiscard]] std::optional<options> parse_options(int argc, char** argv);

} // namespace plan

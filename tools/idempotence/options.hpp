// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/cli/device_option.hpp"
#include "common/cli/output_options.hpp"

#include <gsched/preempt/access.hpp>

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>

namespace idempotence {

/// Where the memory accesses come from.
enum class place { file, host, gpu };

struct options : common::outputs {
  place from = place::file;
  std::filesystem::path trace;  ///< place::file
  common::device_choice device; ///< place::host, place::gpu
  bool reuse = false;           ///< the built-in network's buffers share memory
  bool check = false;           ///< run operations twice
  double limit_s = 60;          ///< for the work of a GPU
  std::map<std::size_t, gsched::declared> says;
  std::filesystem::path save; ///< empty: the trace is not saved
};

/// None when help was asked for.
/// Errors   gsched::error with one line.
[[nodiscard]] std::optional<options> parse_options(int argc, char** argv);

/// Adds the user's declarations to a trace.
/// Errors   bad_option for operations that it does not have.
void declare(gsched::access_trace& t, const options& o);

} // namespace idempotence

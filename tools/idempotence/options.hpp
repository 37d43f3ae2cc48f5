// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/values.hpp"

#include <gsched/preempt/access.hpp>

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>

namespace idempotence {

enum class place { file, host, gpu };

struct options {
  place from = place::file;
  std::filesystem::path trace;  ///< place::file
  common::device_choice device; ///< place::gpu
  bool reuse = false;           ///< the built-in network's buffers share memory
  bool check = false;           ///< run operations twice
  double limit_s = 60;          ///< of all that a GPU does
  std::map<std::size_t, gsched::declared> says;
  std::filesystem::path json; ///< empty: none
  std::filesystem::path save; ///< empty: the trace is not kept
};

/// Errors   gsched::error or CLI::ParseError, one line. None: help was asked for.
[[nodiscard]] std::optional<options> parse_options(int argc, char** argv);

/// Puts the user's word into a trace.
/// Errors   bad_option for operations that it does not have.
void declare(gsched::access_trace& t, const options& o);

} // namespace idempotence

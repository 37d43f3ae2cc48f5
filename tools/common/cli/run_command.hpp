// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace common {

/// Runs a shell command to its end. Its standard error is passed on if it succeeds; otherwise the
/// first line of it is part of the error.
/// Errors   run_error (io) for a command that cannot be run or whose status is not 0.
void run_command(std::string_view option, const std::string& command);

} // namespace common

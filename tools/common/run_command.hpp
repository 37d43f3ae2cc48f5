// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace common {

/// Runs a command of the shell until its end. What it writes to standard error is passed on if it
/// succeeds; else the first line of that is part of the error's one line.
/// Errors   run_error (io) for a command that cannot be run or whose status is not 0.
void run_command(std::string_view option, const std::string& command);

} // namespace common

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gsched_server/settings/settings.hpp"

namespace gsched_server {

/// Blocks the signals that serve waits for, in this thread and those that it makes: before the
/// first one, which a GPU's driver may make when the settings are read.
void block_signals();

/// Serves until SIGTERM or SIGINT, and returns the program's status. SIGHUP has it read the command
/// line's configuration again. block_signals() was called.
/// Errors   run_error, one line, for what cannot be opened.
int serve(settings s, int argc, const char* const* argv);

} // namespace gsched_server

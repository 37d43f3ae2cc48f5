// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gsched_server/settings/settings.hpp"

namespace gsched_server {

/// Serves until SIGTERM or SIGINT, and returns the program's status. SIGHUP has it read the command
/// line's configuration again. The program has no other thread when it is called.
/// Errors   run_error, one line, for what cannot be opened.
int serve(settings s, int argc, const char* const* argv);

} // namespace gsched_server

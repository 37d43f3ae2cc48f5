// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace gsched_top {

/// A snapshot of /events as lines of text, at most 100 columns. Control characters in names become
/// question marks, so that no name can talk to the terminal.
/// Errors   run_error for what is no snapshot.
[[nodiscard]] std::string frame_of(const std::string& snapshot);

} // namespace gsched_top

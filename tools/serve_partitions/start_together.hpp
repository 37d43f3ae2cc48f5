// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace serve_partitions {

/// A barrier for processes that another program has started: makes the file `ready.NAME` in the
/// folder, waits for the file `go` there, and returns at the time that it holds, in nanoseconds of
/// the monotonic clock. A time that has passed is now. `go` must appear whole: by a rename.
///
/// Errors   common::run_error, one line: the folder is gone or cannot be written to, `go` holds no
///          number or one more than a minute ahead, or there is none after ten minutes.
void start_together(const std::filesystem::path& folder, const std::string& name);

} // namespace serve_partitions

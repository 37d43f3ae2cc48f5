// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>

namespace common {

/// Opens, writes and closes a file.
/// Errors   run_error (io), naming the path.
void save(const std::filesystem::path& path, const std::function<void(std::ostream&)>& write);

} // namespace common

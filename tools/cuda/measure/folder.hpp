// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/io/machine_json.hpp>

#include <filesystem>

namespace measure {

/// Makes the folder, and removes what earlier runs wrote into it if `anew`.
/// Otherwise refuses a folder with measurements of another machine. Writes machine.json.
/// Errors   bad_option, one line with what differs; run_error (io).
void open_folder(const std::filesystem::path& out, bool anew, gsched::machine here);

} // namespace measure

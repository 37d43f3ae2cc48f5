// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/io/machine_json.hpp>

#include <filesystem>

namespace measure {

/// Refuses a folder with measurements of another machine. Changes nothing.
/// Errors   bad_option, one line with what differs.
void check_folder(const std::filesystem::path& out, const gsched::machine& here);

/// Makes the folder and writes machine.json in it. With `anew` it first removes the files that earlier
/// runs wrote, and then checks the folder as check_folder does.
/// Errors   as check_folder; run_error (io).
void open_folder(const std::filesystem::path& out, bool anew, gsched::machine here);

} // namespace measure

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>
#include <gsched/io/machine_json.hpp>

#include <filesystem>

namespace measure {

/// Each graph beside one that only starts kernels.
inline constexpr const char* start_pairs_name = "start_pairs.csv";

/// Refuses a folder with measurements of another machine. Changes nothing.
/// Errors   bad_option, one line with what differs.
void check_folder(const std::filesystem::path& out, const gsched::machine& here);

/// Creates the folder and writes machine.json into it. With `anew` it removes the files of earlier
/// runs before. Then it checks the folder as check_folder does.
/// Errors   as check_folder; run_error (io).
void open_folder(const std::filesystem::path& out, bool anew, gsched::machine here);

/// Adds to the folder's profiles how long their graphs take alone on fewer SMs, as far as that has
/// been measured.
/// Errors   those of load_replays and load_profile; run_error (io).
void complete_profiles(const std::filesystem::path& out, gsched::sm_count device);

} // namespace measure

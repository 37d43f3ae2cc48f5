// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/io/machine_json.hpp>
#include <gsched/io/measured_files.hpp>
#include <gsched/job/profile.hpp>

#include <optional>
#include <vector>

namespace common {

using gsched::measured_file;

/// Refuses files of different GPUs, by the machine.json of each. Warns on stderr, in one line each,
/// of files that were measured with another driver or other libraries than the first of them. Files
/// without machine.json are not compared. Returns the machine of the first file that has one.
/// Errors   bad_option, one line that names both files; those of gsched::load_machine.
std::optional<gsched::machine> check_machines(const char* program,
                                              const std::vector<measured_file>& files);

/// The same for files and the machine that a program runs on: `here`. Says of files without
/// machine.json, once for each folder, that their GPU is unknown.
void check_machines_here(const char* program, const std::vector<measured_file>& files,
                         const gsched::machine& here);

/// Refuses a profile that says it was measured on another GPU.
/// Errors   bad_profile, one line that names the profile.
void check_device(const gsched::profile& p, const gsched::machine& expected);

} // namespace common

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace common {

/// Files that a command line names: those to read are recorded, so that none of them is overwritten
/// by a file to write.

/// Records a file that the program reads, so that check_outputs refuses to write over it. Callers
/// of to_file need not. Threads: one, until the command line is read.
void record_input(std::string_view option, const std::filesystem::path& file);
/// Before another command line is read.
void clear_inputs() noexcept;

/// A file that exists, recorded as an input. Errors   gsched::error with one line.
[[nodiscard]] std::filesystem::path to_file(std::string_view option, const std::string& text,
                                            const std::string& expected);

/// An option that names a file to write; an empty path is none.
struct output_option {
  std::string_view option;
  std::filesystem::path path;
};
/// Before a run, when all inputs are known. Refuses a path that cannot be opened for writing, that
/// two options name, or that is an input, also through a link. Changes no file.
/// Errors   gsched::error with one line.
void check_outputs(const std::vector<output_option>& all);

/// A file or folder of the data that ships with gsched, by its name, as `profiles`: in
/// share/gsched beside an installed program; otherwise in the source tree.
[[nodiscard]] std::filesystem::path shipped(const std::string& name);

} // namespace common

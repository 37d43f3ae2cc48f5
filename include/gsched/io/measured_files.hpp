// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/io/machine_json.hpp>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace gsched {

/// A file or folder with measurements, and the option that names it.
struct measured_file {
  std::string option; ///< "--table"
  std::filesystem::path file;

  /// "--table mine/latency.csv".
  [[nodiscard]] std::string text() const { return option + ' ' + file.string(); }
};

/// How files of measurements fit a GPU. A line begins with the text() of its file.
struct machine_findings {
  /// A file that was measured on another GPU, as "--table t.csv: measured on NVIDIA H100, not
  /// NVIDIA H200 as here". Empty: there is none. What follows that file is not looked at.
  std::string other_gpu;
  /// Files that can be used, each with other versions of driver, CUDA or libraries, or without
  /// machine.json, so that their GPU is unknown. One line for each machine and each folder.
  std::vector<std::string> notes;
};

/// Compares the machine.json of each file with the machine that they are used on.
///
/// Order    notes are in the order of the files.
/// Errors   as machine_of.
[[nodiscard]] inline machine_findings compare_with_here(std::span<const measured_file> files,
                                                        const machine& here) {
  machine_findings found;
  std::vector<machine> seen;
  std::vector<std::filesystem::path> unknown; // folders without machine.json
  const auto is_told = [&](const std::filesystem::path& folder) {
    return std::find(unknown.begin(), unknown.end(), folder) != unknown.end();
  };
  std::error_code ignored;
  for (const measured_file& f : files) {
    const bool is_folder = std::filesystem::is_directory(f.file, ignored);
    std::optional<machine> its = machine_of(is_folder ? f.file / "any" : f.file);
    if (!its) {
      const auto whole = std::filesystem::absolute(f.file, ignored).lexically_normal();
      const auto folder = is_folder && whole.has_filename() ? whole : whole.parent_path();
      // machine_of looks one folder above too, as for profiles beside the table.
      if (!is_told(folder) && !is_told(folder.parent_path()))
        found.notes.push_back(f.text() + ": no machine.json " + (is_folder ? "in" : "beside") +
                              " it, so its GPU is unknown");
      unknown.push_back(folder);
      continue;
    }
    if (std::find(seen.begin(), seen.end(), *its) != seen.end()) continue;
    if (const std::string other = gpu_difference(*its, here); !other.empty()) {
      found.other_gpu = f.text() + ": measured on " + other + " as here";
      return found;
    }
    if (const std::string other = version_difference(*its, here); !other.empty())
      found.notes.push_back(f.text() + ": measured with " + other + " as here");
    seen.push_back(std::move(*its));
  }
  return found;
}

} // namespace gsched

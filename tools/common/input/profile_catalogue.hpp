// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/io/measured_files.hpp>
#include <gsched/job/profile.hpp>
#include <gsched/occupancy/limits.hpp>

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace common {

class command_line;

/// --profiles, as all programs have it.
void declare_profiles(command_line& line, std::vector<std::string>& profiles);

/// The profiles that --profiles names, as directories or files, by the stem of their file.
/// Errors   gsched::error (io, bad_option) with one line that names the option.
class profile_catalogue {
public:
  /// Each text is a path, or several between commas. None: the profiles that ship with gsched.
  explicit profile_catalogue(const std::vector<std::string>& texts);

  /// Adds those of another folder.
  void add_directory(const std::filesystem::path& directory);

  using files_by_name = std::map<std::string, std::filesystem::path>;
  /// All of them, recorded as inputs.
  [[nodiscard]] const files_by_name& files() const;
  /// One of each folder, for check_machines.
  [[nodiscard]] std::vector<gsched::measured_file> one_of_each_folder() const;
  /// Whether files were named, and no directories.
  [[nodiscard]] bool only_files() const noexcept { return only_files_; }
  /// One, recorded as an input.
  /// Errors   unknown_name; `where` is the option, or the place in a file, that names it.
  [[nodiscard]] const std::filesystem::path& find(std::string_view where,
                                                  const std::string& name) const;

private:
  void add_file(const std::filesystem::path& file);
  void add_texts(const std::vector<std::string>& texts);
  [[nodiscard]] std::string names() const;

  files_by_name files_;
  bool only_files_;
};

/// gsched::load_profile, without its parser of JSON in each program.
[[nodiscard]] gsched::profile load_model(const std::filesystem::path& file,
                                         const gsched::architecture_limits& sm);

} // namespace common

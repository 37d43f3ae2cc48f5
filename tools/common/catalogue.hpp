// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/job/profile.hpp>
#include <gsched/occupancy/limits.hpp>

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace common {

/// The profiles that --profiles names: files by stem, of directories and of files.
/// Errors   gsched::error (io, bad_option) with one line that names the option.
class catalogue {
public:
  /// A word is a path, or several between commas. No words: the profiles that ship with gsched.
  explicit catalogue(const std::vector<std::string>& words);

  /// Adds those of another folder.
  void add_directory(const std::filesystem::path& directory);

  using files_by_name = std::map<std::string, std::filesystem::path>;
  /// All of them, which the program reads then: see note_input.
  [[nodiscard]] const files_by_name& files() const;
  /// Files were named, and no directories.
  [[nodiscard]] bool only_files() const noexcept { return only_files_; }
  /// One, which the program reads then. Errors   unknown_name; `where` names what asks for it, as
  /// an option.
  [[nodiscard]] const std::filesystem::path& find(std::string_view where,
                                                  const std::string& name) const;

private:
  void add_file(const std::filesystem::path& file);
  void add_words(const std::vector<std::string>& words);
  [[nodiscard]] std::string names() const;

  files_by_name files_;
  bool only_files_;
};

/// The profile of a file, each kernel of which an SM has room for.
/// Errors   gsched::error with one line that names the file, the place and what was expected.
[[nodiscard]] gsched::profile load_model(const std::filesystem::path& file,
                                         const gsched::architecture_limits& sm);

} // namespace common

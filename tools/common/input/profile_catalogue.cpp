// SPDX-License-Identifier: Apache-2.0
#include "common/input/profile_catalogue.hpp"

#include "common/cli/command_line.hpp"
#include "common/cli/files.hpp"
#include "common/cli/option_values.hpp"
#include "common/input/measured_on.hpp"

#include <gsched/core/error.hpp>
#include <gsched/io/profile_json.hpp>

#include <fmt/format.h>

#include <set>
#include <system_error>

namespace fs = std::filesystem;

namespace common {

void declare_profiles(command_line& line, std::vector<std::string>& profiles) {
  line.option(
      "--profiles", profiles, "DIR_OR_FILES",
      "The models' profiles, as directories and files;\ndefault: those that ship with gsched");
}

profile_catalogue::profile_catalogue(const std::vector<std::string>& texts)
    : only_files_(!texts.empty()) {
  add_texts(texts);
  if (texts.empty()) add_directory(shipped("profiles"));
}

const fs::path& profile_catalogue::find(std::string_view where, const std::string& name) const {
  const auto found = files_.find(name);
  if (found == files_.end())
    refuse(where, "unknown model " + in_quotes(name), "some of " + names(),
           gsched::errc::unknown_name);
  record_input(where, found->second);
  return found->second;
}

const profile_catalogue::files_by_name& profile_catalogue::files() const {
  for (const auto& [name, file] : files_) record_input("--profiles", file);
  return files_;
}

std::vector<measured_file> profile_catalogue::one_of_each_folder() const {
  std::vector<measured_file> some;
  std::set<fs::path> seen;
  for (const auto& [name, file] : files_)
    if (seen.insert(file.parent_path()).second) some.push_back({"--profiles", file});
  return some;
}

void profile_catalogue::add_file(const fs::path& file) {
  const auto [at, is_new] = files_.try_emplace(file.stem().string(), file);
  std::error_code ignored;
  if (!is_new && !fs::equivalent(at->second, file, ignored))
    refuse("--profiles",
           fmt::format("{} and {} have one name", in_quotes(at->second.string()),
                       in_quotes(file.string())),
           "files of different names");
}

void profile_catalogue::add_directory(const fs::path& directory) {
  std::error_code ec;
  std::size_t found = 0;
  for (fs::directory_iterator at(directory, ec), end; !ec && at != end; at.increment(ec)) {
    if (at->path().extension() != ".json" || !at->is_regular_file(ec)) continue;
    add_file(at->path());
    ++found;
  }
  if (ec || found == 0)
    refuse("--profiles", "no .json file in " + in_quotes(directory.string()),
           "a directory with profiles", gsched::errc::io);
}

void profile_catalogue::add_texts(const std::vector<std::string>& texts) {
  for (const std::string& text : texts) {
    std::error_code ec;
    const bool one = fs::exists(text, ec);
    for (const std::string& path : one ? std::vector{text} : to_list("--profiles", text)) {
      if (fs::is_directory(path, ec)) {
        add_directory(path);
        only_files_ = false;
      } else if (fs::exists(path, ec)) {
        add_file(path);
      } else {
        refuse("--profiles", in_quotes(path) + " does not exist", "a directory or a profile's file",
               gsched::errc::io);
      }
    }
  }
}

std::string profile_catalogue::names() const {
  constexpr std::size_t most = 12;
  std::vector<std::string> some;
  for (const auto& [name, file] : files_) {
    if (some.size() == most) {
      some.push_back(fmt::format("{} more", files_.size() - most));
      break;
    }
    some.push_back(in_quotes(name).substr(1, in_quotes(name).size() - 2));
  }
  return fmt::format("{}", fmt::join(some, ", "));
}

gsched::profile load_model(const fs::path& file, const gsched::architecture_limits& sm) {
  return gsched::load_profile(file, sm);
}

} // namespace common

// SPDX-License-Identifier: Apache-2.0
#include "common/catalogue.hpp"

#include "common/values.hpp"

#include <gsched/core/error.hpp>
#include <gsched/io/profile_json.hpp>
#include <gsched/occupancy/calculator.hpp>

#include <fmt/format.h>

#include <system_error>

namespace fs = std::filesystem;

namespace common {

catalogue::catalogue(const std::vector<std::string>& words) : only_files_(!words.empty()) {
  add_words(words);
  if (words.empty()) add_directory(shipped("profiles"));
}

const fs::path& catalogue::find(std::string_view where, const std::string& name) const {
  const auto found = files_.find(name);
  if (found == files_.end())
    refuse(where, "unknown model " + in_quotes(name), "some of " + names(),
           gsched::errc::unknown_name);
  note_input(where, found->second);
  return found->second;
}

const catalogue::files_by_name& catalogue::files() const {
  for (const auto& [name, file] : files_) note_input("--profiles", file);
  return files_;
}

void catalogue::add_file(const fs::path& file) {
  const auto [at, fresh] = files_.try_emplace(file.stem().string(), file);
  std::error_code ignored;
  if (!fresh && !fs::equivalent(at->second, file, ignored))
    refuse("--profiles",
           fmt::format("{} and {} have one name", in_quotes(at->second.string()),
                       in_quotes(file.string())),
           "files of different names");
}

void catalogue::add_directory(const fs::path& directory) {
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

void catalogue::add_words(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    std::error_code ec;
    const bool one = fs::exists(word, ec);
    for (const std::string& path : one ? std::vector{word} : to_list("--profiles", word)) {
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

std::string catalogue::names() const {
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
  gsched::profile p = gsched::read_profile(file);
  try {
    gsched::check_fits(p, [&](const gsched::launch_shape& launch) {
      return gsched::max_blocks_per_sm(sm, launch);
    });
  } catch (const gsched::error& e) {
    throw gsched::error(gsched::errc::does_not_fit, file.string() + ": " + e.what());
  }
  return p;
}

} // namespace common

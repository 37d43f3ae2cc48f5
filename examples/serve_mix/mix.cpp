// SPDX-License-Identifier: Apache-2.0
#include "serve_mix/values.hpp"

#include <algorithm>
#include <map>
#include <system_error>

#include <fmt/format.h>

#ifndef GSCHED_EXAMPLES_DATA_DIR
#define GSCHED_EXAMPLES_DATA_DIR "examples/data"
#endif

namespace fs = std::filesystem;

namespace serve_mix {

namespace {

using catalogue = std::map<std::string, fs::path>; ///< by file stem

void add_file(catalogue& known, const fs::path& file) {
  const auto [at, fresh] = known.try_emplace(file.stem().string(), file);
  std::error_code ignored;
  if (!fresh && !fs::equivalent(at->second, file, ignored))
    refuse("--profiles",
           fmt::format("{} and {} have one name", in_quotes(at->second.string()),
                       in_quotes(file.string())),
           "files of different names");
}

void add_directory(catalogue& known, const fs::path& directory) {
  std::error_code ec;
  std::size_t found = 0;
  for (fs::directory_iterator at(directory, ec), end; !ec && at != end; at.increment(ec)) {
    if (at->path().extension() != ".json" || !at->is_regular_file(ec)) continue;
    add_file(known, at->path());
    ++found;
  }
  if (ec || found == 0)
    refuse("--profiles", "no .json file in " + in_quotes(directory.string()),
           "a directory with profiles", gsched::errc::io);
}

/// A word is a path, or several between commas. True if only files were named.
bool add_words(catalogue& known, const std::vector<std::string>& words) {
  bool only_files = !words.empty();
  for (const std::string& word : words) {
    std::error_code ec;
    const bool one = fs::exists(word, ec);
    for (const std::string& path : one ? std::vector{word} : to_list("--profiles", word)) {
      if (fs::is_directory(path, ec)) {
        add_directory(known, path);
        only_files = false;
      } else if (fs::exists(path, ec)) {
        add_file(known, path);
      } else {
        refuse("--profiles", in_quotes(path) + " does not exist", "a directory or a profile's file",
               gsched::errc::io);
      }
    }
  }
  return only_files;
}

std::string names(const catalogue& known) {
  constexpr std::size_t most = 12;
  std::vector<std::string> some;
  for (const auto& [name, file] : known) {
    if (some.size() == most) {
      some.push_back(fmt::format("{} more", known.size() - most));
      break;
    }
    some.push_back(in_quotes(name).substr(1, in_quotes(name).size() - 2));
  }
  return fmt::format("{}", fmt::join(some, ", "));
}

} // namespace

fs::path default_profiles() {
  const fs::path built = fs::path(GSCHED_EXAMPLES_DATA_DIR) / "profiles";
  std::error_code ec;
  if (fs::is_directory(built, ec)) return built;
  const fs::path self = fs::read_symlink("/proc/self/exe", ec);
  const fs::path installed = self.parent_path() / "../share/gsched/profiles";
  return fs::is_directory(installed, ec) ? installed : built;
}

std::vector<mix_entry> to_mix(const std::string& mix, const std::vector<std::string>& words) {
  catalogue known;
  const bool only_files = add_words(known, words);
  if (words.empty()) add_directory(known, default_profiles());

  std::vector<mix_entry> entries;
  if (mix.empty() && only_files) {
    for (const auto& [name, file] : known) entries.push_back({name, 1.0, file});
    return entries;
  }
  for (const std::string& item : to_list("--mix", mix.empty() ? default_mix : mix)) {
    const std::size_t equals = item.rfind('=');
    mix_entry entry;
    entry.name = item.substr(0, equals);
    if (equals != std::string::npos)
      entry.weight =
          to_number("--mix", std::string_view(item).substr(equals + 1), {0, 1e6, true, "a weight"});
    const auto found = known.find(entry.name);
    if (found == known.end())
      refuse("--mix", "unknown model " + in_quotes(entry.name), "some of " + names(known),
             gsched::errc::unknown_name);
    if (std::any_of(entries.begin(), entries.end(),
                    [&](const mix_entry& e) { return e.name == entry.name; }))
      refuse("--mix", in_quotes(entry.name) + " is named twice", "each model once");
    entry.profile = found->second;
    entries.push_back(std::move(entry));
  }
  return entries;
}

} // namespace serve_mix

// SPDX-License-Identifier: Apache-2.0
#include "common/cli/files.hpp"

#include "common/cli/option_values.hpp"

#include <fstream>
#include <map>
#include <system_error>

#include <unistd.h>

#ifndef GSCHED_DATA_DIR
#define GSCHED_DATA_DIR "tools/data"
#endif

namespace fs = std::filesystem;

namespace common {

namespace {

struct input {
  std::string option;
  fs::path file;
};
std::vector<input> inputs; ///< of the command line that is read

void check_writable(std::string_view option, const fs::path& path) {
  std::error_code ignored;
  const bool existed = fs::exists(path, ignored);
  if (fs::is_directory(path, ignored))
    refuse(option, in_quotes(path.string()) + " is a directory", "a path to write a file to",
           gsched::errc::io);
  // A pipe or a device is not opened twice, which its other end would notice.
  const bool other = existed && !fs::is_regular_file(path, ignored);
  const bool opened =
      other ? access(path.c_str(), W_OK) == 0 : std::ofstream(path, std::ios::app).is_open();
  if (!opened)
    refuse(option, in_quotes(path.string()) + " cannot be written", "a path to write a file to",
           gsched::errc::io);
  if (!existed) fs::remove(path, ignored);
}

} // namespace

void record_input(std::string_view option, const fs::path& file) {
  inputs.push_back({std::string(option), file});
}
void clear_inputs() noexcept { inputs.clear(); }

fs::path to_file(std::string_view option, const std::string& text, const std::string& expected) {
  std::error_code ignored;
  if (!fs::exists(text, ignored))
    refuse(option, in_quotes(text) + " does not exist", expected, gsched::errc::io);
  if (fs::is_directory(text, ignored))
    refuse(option, in_quotes(text) + " is a directory", expected, gsched::errc::io);
  record_input(option, text);
  return text;
}

void check_outputs(const std::vector<output_option>& all) {
  std::map<fs::path, std::string_view> taken; // by the canonical path
  for (const auto& [option, path] : all) {
    if (path.empty()) continue;
    std::error_code ignored;
    const fs::path one = fs::weakly_canonical(fs::absolute(path, ignored), ignored);
    const auto [at, is_new] = taken.emplace(one.empty() ? path : one, option);
    if (!is_new)
      refuse(option, in_quotes(path.string()) + " is also that of " + std::string(at->second),
             "a file of its own");
    for (const input& in : inputs)
      if (fs::equivalent(path, in.file, ignored))
        refuse(option, in_quotes(path.string()) + " is also the input of " + in.option,
               "a file of its own");
    check_writable(option, path);
  }
}

fs::path shipped(const std::string& name) {
  std::error_code ec;
  const fs::path self = fs::read_symlink("/proc/self/exe", ec);
  const fs::path installed = (self.parent_path() / "../share/gsched" / name).lexically_normal();
  return fs::exists(installed, ec) ? installed : fs::path(GSCHED_DATA_DIR) / name;
}

} // namespace common

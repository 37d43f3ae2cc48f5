// SPDX-License-Identifier: Apache-2.0
#include "common/values.hpp"

#include "common/gnuplot.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <map>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>

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
  // A pipe or a device is not opened twice: its other end would see it.
  const bool other = existed && !fs::is_regular_file(path, ignored);
  const bool opened =
      other ? access(path.c_str(), W_OK) == 0 : std::ofstream(path, std::ios::app).is_open();
  if (!opened)
    refuse(option, in_quotes(path.string()) + " cannot be written", "a path to write a file to",
           gsched::errc::io);
  if (!existed) fs::remove(path, ignored);
}

} // namespace

void refuse(std::string_view option, const std::string& wrong, const std::string& expected,
            gsched::errc code) {
  throw gsched::error(code, fmt::format("{}: {}, expected {}", option, wrong, expected));
}

std::string in_quotes(std::string_view word) {
  std::string s(word.substr(0, 200));
  for (char& c : s)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return "'" + s + (word.size() > 200 ? "...'" : "'");
}

double to_number(std::string_view option, std::string_view word, const number_range& range) {
  double n = 0;
  const char* const end = word.data() + word.size();
  const auto [stop, ec] = std::from_chars(word.data(), end, n);
  const bool readable = !word.empty() && ec == std::errc{} && stop == end && std::isfinite(n);
  if (readable && n >= range.least && n <= range.most && !(range.above && n == range.least))
    return n;
  refuse(option,
         readable ? in_quotes(word) + " is out of range" : in_quotes(word) + " is not a number",
         fmt::format("{} {} {}{} {}", range.unit.empty() ? "a number" : range.unit,
                     range.above ? "above" : "from", range.least, range.above ? ", at most" : " to",
                     range.most));
}

std::uint64_t to_count(std::string_view option, std::string_view word, std::uint64_t least,
                       std::uint64_t most) {
  std::uint64_t n = 0;
  const char* const end = word.data() + word.size();
  const auto [stop, ec] = std::from_chars(word.data(), end, n);
  const bool readable = !word.empty() && ec != std::errc::invalid_argument && stop == end;
  if (readable && ec == std::errc{} && n >= least && n <= most) return n;
  refuse(option,
         readable ? in_quotes(word) + " is out of range"
                  : in_quotes(word) + " is not a whole number",
         fmt::format("a whole number from {} to {}", least, most));
}

std::vector<std::string> to_list(std::string_view option, std::string_view words) {
  std::vector<std::string> items;
  std::set<std::string> seen;
  for (std::size_t from = 0; from <= words.size();) {
    const std::size_t comma = std::min(words.find(',', from), words.size());
    if (comma == from)
      refuse(option, in_quotes(words) + " has an empty item", "names between commas");
    std::string item(words.substr(from, comma - from));
    if (!seen.insert(item).second) refuse(option, in_quotes(item) + " is named twice", "each once");
    items.push_back(std::move(item));
    from = comma + 1;
  }
  return items;
}

std::vector<std::uint32_t> to_counts(std::string_view option, std::string_view words,
                                     std::uint32_t least, std::uint32_t most) {
  std::vector<std::uint32_t> counts;
  for (const std::string& item : to_list(option, words)) {
    const auto n = static_cast<std::uint32_t>(to_count(option, item, least, most));
    if (std::find(counts.begin(), counts.end(), n) != counts.end())
      refuse(option, in_quotes(item) + " is named twice", "each once");
    counts.push_back(n);
  }
  return counts;
}

gsched::duration to_us(std::string_view option, std::string_view word, double most) {
  return gsched::from_us(to_number(option, word, {0, most, false, "microseconds"}));
}

void check_quanta(gsched::duration quantum, gsched::duration most) {
  if (quantum > most)
    refuse("--quantum",
           fmt::format("{} us is above --most-quantum, {} us", gsched::to_us(quantum),
                       gsched::to_us(most)),
           "at most as much");
}

void note_input(std::string_view option, const fs::path& file) {
  inputs.push_back({std::string(option), file});
}
void forget_inputs() noexcept { inputs.clear(); }

fs::path to_file(std::string_view option, const std::string& word, const std::string& expected) {
  std::error_code ignored;
  if (!fs::exists(word, ignored))
    refuse(option, in_quotes(word) + " does not exist", expected, gsched::errc::io);
  if (fs::is_directory(word, ignored))
    refuse(option, in_quotes(word) + " is a directory", expected, gsched::errc::io);
  note_input(option, word);
  return word;
}

void read_device(device_choice& o, const std::string& word) {
  o.device = word;
  const std::string_view text = word;
  if (text == "cuda")
    o.gpu = 0;
  else if (text.starts_with("cuda:"))
    o.gpu = static_cast<int>(to_count("--device", text.substr(5), 0, 1023));
  else if (text.ends_with(".json"))
    o.preset = to_file("--device", word, "a preset's file");
  else if (text != "sim:h200")
    refuse("--device", "unknown device " + in_quotes(word),
           "sim:h200, cuda, cuda:N or a preset's file (.json)", gsched::errc::unknown_name);
}

void no_cuda(const device_choice& which) {
  refuse("--device", which.device + ", but this build has no CUDA", "one made with a CUDA compiler",
         gsched::errc::no_device);
}

void check_outputs(const std::vector<output_option>& all) {
  std::map<fs::path, std::string_view> taken; // by a path that each spelling of it gives
  for (const auto& [option, path] : all) {
    if (path.empty()) continue;
    std::error_code ignored;
    const fs::path one = fs::weakly_canonical(fs::absolute(path, ignored), ignored);
    const auto [at, fresh] = taken.emplace(one.empty() ? path : one, option);
    if (!fresh)
      refuse(option, in_quotes(path.string()) + " is also that of " + std::string(at->second),
             "a file of its own");
    for (const input& in : inputs)
      if (fs::equivalent(path, in.file, ignored))
        refuse(option, in_quotes(path.string()) + " is also the input of " + in.option,
               "a file of its own");
    check_writable(option, path);
  }
}

void read_outputs(outputs& o, const std::string& json, const std::string& trace,
                  const std::string& plot) {
  o.json = json;
  o.trace = trace;
  o.plot = plot;
  check_outputs({{"--json", o.json}, {"--trace", o.trace}, {"--plot", o.plot}});
  if (o.plot.empty()) return;
  const auto type = o.plot.extension();
  if (type != ".svg" && type != ".png" && type != ".pdf")
    refuse("--plot", in_quotes(o.plot.string()) + " has an unknown type", ".svg, .png or .pdf");
  if (!gnuplot_found())
    refuse("--plot", "gnuplot is not on the path", "it installed (package gnuplot-nox)");
}

fs::path shipped(const std::string& name) {
  std::error_code ec;
  const fs::path self = fs::read_symlink("/proc/self/exe", ec);
  const fs::path installed = (self.parent_path() / "../share/gsched" / name).lexically_normal();
  return fs::exists(installed, ec) ? installed : fs::path(GSCHED_DATA_DIR) / name;
}

std::size_t read_threads(std::string_view word, bool given, const device_choice& on,
                         const outputs& to) {
  const bool alone = on.gpu.has_value() || !to.trace.empty();
  if (!given) return alone ? 1 : std::max(std::thread::hardware_concurrency(), 1u);
  const std::uint64_t threads = to_count("--threads", word, 1, 1024);
  if (threads > 1 && on.gpu)
    refuse("--threads", "more than one on a GPU", "1, or a simulated device");
  if (threads > 1 && !to.trace.empty())
    refuse("--threads", "more than one beside --trace", "1, or no --trace");
  return threads;
}

} // namespace common

// SPDX-License-Identifier: Apache-2.0
#include "serve_mix/values.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <system_error>

#include <fmt/format.h>

#include <unistd.h>

namespace fs = std::filesystem;

namespace serve_mix {

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
  for (std::size_t from = 0; from <= words.size();) {
    const std::size_t comma = std::min(words.find(',', from), words.size());
    if (comma == from)
      refuse(option, in_quotes(words) + " has an empty item", "names between commas");
    items.emplace_back(words.substr(from, comma - from));
    from = comma + 1;
  }
  return items;
}

arrival_options to_arrivals(const std::string& word) {
  constexpr std::string_view option = "--arrivals";
  const std::size_t colon = word.find(':');
  const std::string law = word.substr(0, colon);
  const std::string value = colon == std::string::npos ? "" : word.substr(colon + 1);
  arrival_options a;
  a.text = word;
  if (word == "poisson") return a;
  if (law == "lognormal") {
    a.law = arrival_law::lognormal;
    a.sigma = to_number(option, value, {0, 10, true, "lognormal:SIGMA, a sigma"});
  } else if (law == "closed") {
    a.law = arrival_law::closed;
    a.in_flight = static_cast<std::uint32_t>(to_count(option, value, 1, 1'000'000));
  } else if (law == "trace") {
    a.law = arrival_law::trace;
    a.file = value;
    std::error_code ignored;
    if (fs::is_directory(a.file, ignored) || !std::ifstream(a.file))
      refuse(option, "trace file " + in_quotes(value) + " cannot be opened", "a readable file",
             gsched::errc::io);
  } else {
    refuse(option, "unknown law " + in_quotes(word),
           "poisson, lognormal:SIGMA, closed:N or trace:FILE", gsched::errc::unknown_name);
  }
  return a;
}

std::vector<std::string> to_policies(const std::string& words) {
  const auto& known = policy_names();
  if (words == "all") return known;
  std::vector<std::string> policies;
  for (std::string& name : to_list("--policy", words)) {
    if (std::find(known.begin(), known.end(), name) == known.end())
      refuse("--policy", "unknown policy " + in_quotes(name),
             fmt::format("all, or some of {}", fmt::join(known, ",")), gsched::errc::unknown_name);
    if (std::find(policies.begin(), policies.end(), name) != policies.end())
      refuse("--policy", in_quotes(name) + " is named twice", "each policy once");
    policies.push_back(std::move(name));
  }
  return policies;
}

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

} // namespace serve_mix

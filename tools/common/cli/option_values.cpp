// SPDX-License-Identifier: Apache-2.0
#include "common/cli/option_values.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <system_error>
#include <utility>

#include <fmt/format.h>

namespace common {

void refuse(std::string_view option, const std::string& wrong, const std::string& expected,
            gsched::errc code) {
  throw gsched::error(code, fmt::format("{}: {}, expected {}", option, wrong, expected));
}

std::string in_quotes(std::string_view text) {
  std::string s(text.substr(0, 200));
  for (char& c : s)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return "'" + s + (text.size() > 200 ? "...'" : "'");
}

std::string joined_by_or(const std::vector<std::string_view>& names) {
  std::string all;
  for (std::size_t i = 0; i < names.size(); ++i)
    all.append(i == 0 ? "" : i + 1 < names.size() ? ", " : " or ").append(names[i]);
  return all;
}

double to_number(std::string_view option, std::string_view text, const number_range& range) {
  double n = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, ec] = std::from_chars(text.data(), end, n);
  const bool readable = !text.empty() && ec == std::errc{} && stop == end && std::isfinite(n);
  if (readable && n >= range.least && n <= range.most && !(range.above && n == range.least))
    return n;
  refuse(option,
         readable ? in_quotes(text) + " is out of range" : in_quotes(text) + " is not a number",
         fmt::format("{} {} {}{} {}", range.unit.empty() ? "a number" : range.unit,
                     range.above ? "above" : "from", range.least, range.above ? ", at most" : " to",
                     range.most));
}

std::uint64_t to_count(std::string_view option, std::string_view text, std::uint64_t least,
                       std::uint64_t most) {
  std::uint64_t n = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, ec] = std::from_chars(text.data(), end, n);
  const bool readable = !text.empty() && ec != std::errc::invalid_argument && stop == end;
  if (readable && ec == std::errc{} && n >= least && n <= most) return n;
  refuse(option,
         readable ? in_quotes(text) + " is out of range"
                  : in_quotes(text) + " is not a whole number",
         fmt::format("a whole number from {} to {}", least, most));
}

std::vector<std::string> to_list(std::string_view option, std::string_view text) {
  std::vector<std::string> items;
  std::set<std::string> seen;
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t comma = std::min(text.find(',', from), text.size());
    if (comma == from)
      refuse(option, in_quotes(text) + " has an empty item", "names between commas");
    std::string item(text.substr(from, comma - from));
    if (!seen.insert(item).second) refuse(option, in_quotes(item) + " is named twice", "each once");
    items.push_back(std::move(item));
    from = comma + 1;
  }
  return items;
}

std::vector<std::uint32_t> to_counts(std::string_view option, std::string_view text,
                                     std::uint32_t least, std::uint32_t most) {
  std::vector<std::uint32_t> counts;
  for (const std::string& item : to_list(option, text)) {
    const std::uint32_t n = to_small_count(option, item, least, most);
    if (std::find(counts.begin(), counts.end(), n) != counts.end())
      refuse(option, in_quotes(item) + " is named twice", "each once");
    counts.push_back(n);
  }
  return counts;
}

std::uint32_t to_small_count(std::string_view option, std::string_view text, std::uint32_t least,
                             std::uint32_t most) {
  return static_cast<std::uint32_t>(to_count(option, text, least, most));
}

gsched::duration to_us(std::string_view option, std::string_view text, double most, bool above) {
  return gsched::from_us(to_number(option, text, {0, most, above, "microseconds"}));
}

} // namespace common

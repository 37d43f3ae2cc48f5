// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/time.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace common {

/// The text of an option turned into a value. Each function throws gsched::error with one line that
/// names the option, what is wrong with the text, and what was expected.

[[noreturn]] void refuse(std::string_view option, const std::string& wrong,
                         const std::string& expected, gsched::errc code = gsched::errc::bad_option);

/// A text in quotes, truncated, control characters replaced: fit for one line.
[[nodiscard]] std::string in_quotes(std::string_view text);

/// "a, b or c".
[[nodiscard]] std::string joined_by_or(const std::vector<std::string_view>& names);

/// A finite number in [least, most], or in (least, most] if `above`.
struct number_range {
  double least;
  double most;
  bool above = false;
  std::string_view unit{};
};
[[nodiscard]] double to_number(std::string_view option, std::string_view text,
                               const number_range& range);
[[nodiscard]] std::uint64_t to_count(std::string_view option, std::string_view text,
                                     std::uint64_t least, std::uint64_t most);
/// to_count for counts of at most 32 bits.
[[nodiscard]] std::uint32_t to_small_count(std::string_view option, std::string_view text,
                                           std::uint32_t least, std::uint32_t most);
/// Microseconds from 0 to `most`, or above 0 if `above`.
[[nodiscard]] gsched::duration to_us(std::string_view option, std::string_view text, double most,
                                     bool above = false);

/// Items between commas; refuses an empty item and one that is there twice.
[[nodiscard]] std::vector<std::string> to_list(std::string_view option, std::string_view text);
/// The same of whole numbers; refuses equal numbers, however they are written.
[[nodiscard]] std::vector<std::uint32_t> to_counts(std::string_view option, std::string_view text,
                                                   std::uint32_t least, std::uint32_t most);

/// The value that stands for a name. Errors   unknown_name, with all names in its line.
template <class Value>
[[nodiscard]] Value to_choice(std::string_view option, std::string_view text,
                              std::initializer_list<std::pair<std::string_view, Value>> choices) {
  std::vector<std::string_view> names;
  for (const auto& [name, value] : choices) {
    if (name == text) return value;
    names.push_back(name);
  }
  refuse(option, "unknown value " + in_quotes(text), joined_by_or(names),
         gsched::errc::unknown_name);
}

} // namespace common

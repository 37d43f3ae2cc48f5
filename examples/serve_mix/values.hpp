// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "serve_mix/options.hpp"

#include <gsched/core/error.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace serve_mix {

/// The words of a command line turned into values. Each throws gsched::error with one line that
/// names the option, what is wrong with the word, and what was expected.

[[noreturn]] void refuse(std::string_view option, const std::string& wrong,
                         const std::string& expected, gsched::errc code = gsched::errc::bad_option);

/// A word in quotes, cut short, control characters replaced: fit for one line.
[[nodiscard]] std::string in_quotes(std::string_view word);

/// A finite number in [least, most], or in (least, most] if `above`.
struct number_range {
  double least;
  double most;
  bool above = false;
  std::string_view unit{};
};
[[nodiscard]] double to_number(std::string_view option, std::string_view word,
                               const number_range& range);
[[nodiscard]] std::uint64_t to_count(std::string_view option, std::string_view word,
                                     std::uint64_t least, std::uint64_t most);

/// Cut at commas; an empty item is refused.
[[nodiscard]] std::vector<std::string> to_list(std::string_view option, std::string_view words);

/// `NAME[=WEIGHT],...` against the profiles in `words`: directories and files. An empty mix is the
/// default one, or all of the files if files are named.
[[nodiscard]] std::vector<mix_entry> to_mix(const std::string& mix,
                                            const std::vector<std::string>& words);

[[nodiscard]] arrival_options to_arrivals(const std::string& word);
[[nodiscard]] std::vector<std::string> to_policies(const std::string& words);

/// Refuses a path that cannot be opened for writing; leaves what is there as it is.
void check_writable(std::string_view option, const std::filesystem::path& path);

/// Where the profiles that ship with gsched are.
[[nodiscard]] std::filesystem::path default_profiles();

} // namespace serve_mix

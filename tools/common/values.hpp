// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/time.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace common {

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
/// Microseconds from 0 to `most`.
[[nodiscard]] gsched::duration to_us(std::string_view option, std::string_view word, double most);

/// Cut at commas; an empty item and one that is there twice are refused.
[[nodiscard]] std::vector<std::string> to_list(std::string_view option, std::string_view words);
/// The same of whole numbers, none twice however it is written.
[[nodiscard]] std::vector<std::uint32_t> to_counts(std::string_view option, std::string_view words,
                                                   std::uint32_t least, std::uint32_t most);

/// Refuses a --quantum above --most-quantum.
void check_quanta(gsched::duration quantum, gsched::duration most);

/// Records a file that the program reads, so that check_outputs refuses to write over it. What
/// calls to_file need not. Threads: one, until the command line is read.
void note_input(std::string_view option, const std::filesystem::path& file);
/// At the start of another command line.
void forget_inputs() noexcept;

/// A file that is there, as an input.
[[nodiscard]] std::filesystem::path to_file(std::string_view option, const std::string& word,
                                            const std::string& expected);

/// What models run on, as --device says.
struct device_choice {
  std::string device = "sim:h200";     ///< as it was written
  std::filesystem::path preset;        ///< a simulated GPU's file; empty: the one that ships
  std::optional<int> gpu;              ///< a real one, by the runtime's number
  std::optional<std::uint32_t> queues; ///< hardware queues; unset: as many as the device has
};
void read_device(device_choice& into, const std::string& word);
/// For a GPU in a build without CUDA.
[[noreturn]] void no_cuda(const device_choice& which);

/// An option that names a file to write; an empty path is none.
struct output_option {
  std::string_view option;
  std::filesystem::path path;
};
/// Before a run, when all inputs are known. Refuses a path that cannot be opened for writing, that
/// two options name, or that is an input, also through a link. Changes no file.
void check_outputs(const std::vector<output_option>& all);

/// What a program writes. read_outputs checks its files as check_outputs does, and refuses a plot
/// whose type nothing draws.
struct outputs {
  std::filesystem::path json; ///< these three: empty for none
  std::filesystem::path trace;
  std::filesystem::path plot;
  bool quiet = false;    ///< no table
  bool progress = false; ///< wanted, and stderr is a terminal
};
void read_outputs(outputs& into, const std::string& json, const std::string& trace,
                  const std::string& plot);

/// --threads, on which runs are simulated side by side: as many as this machine runs at once unless
/// given. One on a GPU and where a timeline is recorded, as runs cannot overlap there; more are
/// refused.
[[nodiscard]] std::size_t read_threads(std::string_view word, bool given, const device_choice& on,
                                       const outputs& to);

/// Where the data that ships with gsched is: a folder or file of it by name, as `profiles`. That
/// beside an installed program, in share/gsched; else that of the source tree.
[[nodiscard]] std::filesystem::path shipped(const std::string& name);

} // namespace common

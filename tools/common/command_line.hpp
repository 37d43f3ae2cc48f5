// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/values.hpp"

#include <initializer_list>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace common {

/// A command line as words, of what several programs take. Words are checked after CLI11 is done,
/// so that all errors read alike.
struct words {
  std::string device = "sim:h200", queues, json, trace, plot;
  std::vector<std::string> profiles;
  bool quiet = false, no_progress = false;
};

/// Tells CLI11 of options, group by group; their words land where they are told.
class declaration {
public:
  explicit declaration(CLI::App& app) : app_(app) {}

  void group(std::string name) { group_ = std::move(name); }
  void add(const char* name, std::string& word, const char* type, const char* help);

  /// These three as every program has them; the last two are groups of their own.
  void profiles(words& w);
  void device(words& w);
  void outputs(words& w, const char* trace_help, const char* plot_help);

  void about(const char* program, const char* description, const char* footer);

private:
  CLI::App& app_;
  std::string group_;
};

/// Lets CLI11 read the line. False when it asked for help, which is then printed on stdout.
/// Inputs that were noted before are forgotten (note_input).
/// Errors   gsched::error with one line; bad_option for an option with an empty value, too.
[[nodiscard]] bool parse(CLI::App& app, int argc, const char* const* argv);

/// Whether the line has the option, of the program or of its subcommand.
[[nodiscard]] bool is_given(const CLI::App& app, const std::string& option);

/// Refuses those of `options` that are given though the program does not use them, as `used` is
/// false. `because` ends the sentence "--levels: given ...", `expected` the line.
/// Errors   bad_option.
void refuse_unused(const CLI::App& app, bool used, std::initializer_list<const char*> options,
                   const std::string& because, const std::string& expected);

/// What words say of the device.
void read_device_words(device_choice& device, const words& w);
/// What words say of outputs, once all inputs are known: see check_outputs.
void read_output_words(outputs& out, const words& w);

} // namespace common

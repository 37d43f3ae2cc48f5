// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace common {

/// The command line of a program. Each option is declared with a variable that takes its text;
/// texts are checked once the line is read, so that the messages of all programs are alike.
class command_line {
public:
  /// `details` end the text of --help.
  command_line(const char* program, const std::string& description, const std::string& details);
  ~command_line();
  command_line(const command_line&) = delete;
  command_line& operator=(const command_line&) = delete;

  /// The heading of the options that follow, in --help; empty: they are not in --help.
  void group(const char* heading);
  /// --help shows the default, which is the text now.
  void option(const char* name, std::string& text, const char* type, const char* help);
  /// With several values.
  void option(const char* name, std::vector<std::string>& texts, const char* type,
              const char* help);
  void flag(const char* names, bool& is_set, const char* help);
  /// The options that follow belong to it. A line has to name one subcommand.
  void subcommand(const char* name, const char* help);

  /// Reads the line. False when it asked for help, which is then printed on stdout. Clears the
  /// recorded inputs (record_input).
  /// Errors   gsched::error with one line; bad_option also for an option with an empty value.
  [[nodiscard]] bool parse(int argc, const char* const* argv);

  /// After parse: whether the line has the option.
  [[nodiscard]] bool is_given(const std::string& option) const;
  /// The subcommand that it names; empty in a program without.
  [[nodiscard]] std::string chosen() const;

  /// Refuses those of `options` that are given though the program does not use them, as `used` is
  /// false. `because` ends the sentence "--levels: given ...", `expected` the line.
  /// Errors   bad_option.
  void refuse_unused(bool used, std::initializer_list<const char*> options,
                     const std::string& because, const std::string& expected) const;

private:
  std::unique_ptr<CLI::App> app_;
  CLI::App* declared_; ///< what options are added to: the program, or a subcommand
  std::string group_ = "Options";
};

} // namespace common

// SPDX-License-Identifier: Apache-2.0
#include "common/cli/command_line.hpp"

#include "common/cli/files.hpp"
#include "common/cli/option_values.hpp"

#include <CLI/CLI.hpp>

#include <iostream>
#include <string_view>

namespace common {

namespace {

/// Of the program, and of the subcommand that the line names.
template <class F>
void for_each_option(const CLI::App& app, F f) {
  for (const CLI::Option* const o : app.get_options()) f(*o);
  for (const CLI::App* const sub : app.get_subcommands()) for_each_option(*sub, f);
}

/// "fit, evaluate or predict"
std::string commands_of(const CLI::App& app) {
  std::vector<std::string_view> names;
  for (const CLI::App* const sub : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(sub->get_name()); // a reference to its own
  return joined_by_or(names);
}

} // namespace

command_line::command_line(const char* program, const std::string& description,
                           const std::string& details)
    : app_(std::make_unique<CLI::App>(description, program)), declared_(app_.get()) {
  app_->get_formatter()->column_width(30);
  app_->set_help_flag("-h,--help", "This text");
  app_->footer(details);
}

command_line::~command_line() = default;

void command_line::group(const char* heading) { group_ = heading; }

void command_line::option(const char* name, std::string& text, const char* type, const char* help) {
  declared_->add_option(name, text, help)->type_name(type)->group(group_)->capture_default_str();
}

void command_line::option(const char* name, std::vector<std::string>& texts, const char* type,
                          const char* help) {
  declared_->add_option(name, texts, help)->type_name(type)->group(group_);
}

void command_line::flag(const char* names, bool& is_set, const char* help) {
  declared_->add_flag(names, is_set, help)->group(group_);
}

void command_line::subcommand(const char* name, const char* help) {
  declared_ = app_->add_subcommand(name, help);
  app_->require_subcommand(1);
  group_ = "Options";
}

bool command_line::parse(int argc, const char* const* argv) {
  clear_inputs();
  try {
    app_->parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::cout << app_->help(); // of the subcommand, if the line names one
    return false;
  } catch (const CLI::ParseError& e) {
    const std::vector<std::string> unknown = app_->remaining();
    if (dynamic_cast<const CLI::RequiredError*>(&e) != nullptr) { // no option is required
      if (unknown.empty() || unknown.front().starts_with('-'))
        refuse("command line", "no command", commands_of(*app_));
      refuse("command line", "unknown command " + in_quotes(unknown.front()), commands_of(*app_),
             gsched::errc::unknown_name);
    }
    const std::string line = in_quotes(e.what());
    refuse("command line", line.substr(1, line.size() - 2),
           "what " + app_->get_name() + " --help lists");
  }
  for_each_option(*app_, [](const CLI::Option& o) {
    if (o.get_expected_min() == 0) { // a flag
      for (const std::string& value : o.results())
        if (value != "true") refuse(o.get_name(), in_quotes(value) + " given", "no value");
      return;
    }
    for (const std::string& value : o.results())
      if (value.empty()) refuse(o.get_name(), "'' is empty", o.get_type_name());
  });
  return true;
}

bool command_line::is_given(const std::string& option) const {
  bool given = false;
  for_each_option(*app_,
                  [&](const CLI::Option& o) { given |= o.count() > 0 && o.check_name(option); });
  return given;
}

std::string command_line::chosen() const {
  const auto all = app_->get_subcommands();
  return all.empty() ? std::string() : all.front()->get_name();
}

void command_line::refuse_unused(bool used, std::initializer_list<const char*> options,
                                 const std::string& because, const std::string& expected) const {
  if (used) return;
  for (const char* const option : options)
    if (is_given(option)) refuse(option, "given " + because, expected);
}

} // namespace common

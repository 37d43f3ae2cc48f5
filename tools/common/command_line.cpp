// SPDX-License-Identifier: Apache-2.0
#include "common/command_line.hpp"

#include <CLI/CLI.hpp>

#include <unistd.h>

#include <iostream>
#include <utility>

namespace common {

void declaration::add(const char* name, std::string& word, const char* type, const char* help) {
  app_.add_option(name, word, help)->type_name(type)->group(group_)->capture_default_str();
}

void declaration::profiles(words& w) {
  app_.add_option("--profiles", w.profiles,
                  "The models' profiles, as directories and files;\n"
                  "default: those that ship with gsched")
      ->type_name("DIR_OR_FILES")
      ->group(group_);
}

void declaration::device(words& w) {
  group("On what device");
  add("--device", w.device, "NAME",
      "sim:h200, a simulated NVIDIA H200; a simulated GPU's\npreset, FILE.json; cuda or cuda:N, a "
      "GPU of this machine");
  add("--queues", w.queues, "N", "Hardware queues; default: as many as the device has");
}

void declaration::outputs(words& w, const char* trace_help, const char* plot_help) {
  group("What comes out");
  add("--json", w.json, "FILE", "All results");
  add("--trace", w.trace, "FILE", trace_help);
  add("--plot", w.plot, "FILE", plot_help);
  app_.add_flag("-q,--quiet", w.quiet, "No table")->group(group_);
  app_.add_flag("--no-progress", w.no_progress, "No progress bar on a terminal")->group(group_);
}

void declaration::about(const char* program, const char* description, const char* footer) {
  app_.name(program);
  app_.description(description);
  app_.get_formatter()->column_width(30);
  app_.set_help_flag("-h,--help", "This text");
  app_.footer(footer);
}

namespace {

/// Of the program, and of the subcommand that the line names.
template <class F>
void for_each_option(const CLI::App& app, F f) {
  for (const CLI::Option* const o : app.get_options()) f(*o);
  for (const CLI::App* const sub : app.get_subcommands()) for_each_option(*sub, f);
}

} // namespace

bool parse(CLI::App& app, int argc, const char* const* argv) {
  forget_inputs();
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    const auto chosen = app.get_subcommands();
    std::cout << (chosen.empty() ? &app : chosen.front())->help();
    return false;
  } catch (const CLI::ParseError& e) {
    const std::string line = in_quotes(e.what());
    refuse("command line", line.substr(1, line.size() - 2),
           "what " + app.get_name() + " --help lists");
  }
  for_each_option(app, [](const CLI::Option& o) {
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

bool is_given(const CLI::App& app, const std::string& option) {
  bool given = false;
  for_each_option(app,
                  [&](const CLI::Option& o) { given |= o.count() > 0 && o.check_name(option); });
  return given;
}

void refuse_unused(const CLI::App& app, bool used, std::initializer_list<const char*> options,
                   const std::string& because, const std::string& expected) {
  if (used) return;
  for (const char* const option : options)
    if (is_given(app, option)) refuse(option, "given " + because, expected);
}

void read_device_words(device_choice& device, const words& w) {
  read_device(device, w.device);
  if (!w.queues.empty())
    device.queues = static_cast<std::uint32_t>(to_count("--queues", w.queues, 1, 1024));
}

void read_output_words(outputs& out, const words& w) {
  read_outputs(out, w.json, w.trace, w.plot);
  out.quiet = w.quiet;
  out.progress = !w.no_progress && !w.quiet && isatty(STDERR_FILENO) == 1;
}

} // namespace common

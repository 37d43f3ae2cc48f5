// SPDX-License-Identifier: Apache-2.0
//
// What kernel padding promises before anything is run: how much best-effort work real-time models
// could carry by the rules, and what padded kernels are predicted to take.
#include "padding/facts.hpp"
#include "padding/potential.hpp"
#include "padding/report.hpp"

#include "common/catalogue.hpp"
#include "common/command_line.hpp"
#include "common/main.hpp"
#include "common/progress.hpp"
#include "common/save.hpp"
#include "common/simulated.hpp"
#include "common/values.hpp"

#include <CLI/CLI.hpp>

#include <unistd.h>

#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace {

struct options : common::device_choice, common::outputs {
  std::filesystem::path facts; ///< of pairs; empty: potential
  std::vector<std::string> profiles;
  std::optional<common::catalogue> known; ///< of potential
  std::vector<std::string> real_time;
  std::vector<std::string> guest;
  std::vector<gsched::level_rule> rules{gsched::level_rule::own, gsched::level_rule::needed};
  padding::question question;
};

/// All models that are read are known before an output is looked at.
void note_models(const options& o) {
  for (const auto& [option, names] :
       {std::pair("--real-time", &o.real_time), {"--guest", &o.guest}}) {
    for (const std::string& name : *names) static_cast<void>(o.known->find(option, name));
    if (names->empty()) static_cast<void>(o.known->files());
  }
}

std::optional<options> parse(int argc, char** argv) {
  CLI::App app("What kernel padding promises, by its rules and by the simulated GPU.\n"
               "Exit code: 0; 1 for a failure while running; 2 for a usage or input error.");
  app.name("padding");
  app.require_subcommand(1);
  std::string device = "sim:h200", rule, share = "1", number = "3", count = "1", places = "16",
              simulated = "0", facts, json, real_time, guest;
  options o;
  bool no_progress = false;
  CLI::App* const potential = app.add_subcommand(
      "potential", "best-effort time that each pair of models could get, guests in order");
  CLI::App* const pairs = app.add_subcommand("pairs", "predicted times of pairs of kernels");
  potential->add_option("--profiles", o.profiles, "directories and files; default: those shipped");
  potential->add_option("--real-time", real_time, "these as real-time models; default: all");
  potential->add_option("--guest", guest, "these as best-effort models; default: all");
  potential->add_option("--guests", count, "requests of the guest at once")->capture_default_str();
  potential->add_option("--starts", places, "places in the guest to begin at")
      ->capture_default_str();
  potential->add_option("--predict", simulated, "how many of these to simulate, at some cost")
      ->capture_default_str();
  pairs->add_option("--facts", facts, "CSV of kernels: tools/padding/facts.hpp has its columns")
      ->required();
  for (CLI::App* const sub : {potential, pairs}) {
    sub->add_option("--rule", rule, "the form of rule 2: own or needed; default: needed, or both");
    sub->add_option("--parts", number, "guests that a padded kernel carries")
        ->capture_default_str();
    sub->add_option("--share", share, "of a real-time kernel's time that guests may use")
        ->capture_default_str();
    sub->add_option("--device", device, "a simulated one")->capture_default_str();
    sub->add_option("--json", json, "write all rows to this file");
    sub->add_flag("--no-progress", no_progress, "no progress bar on a terminal");
  }
  if (!common::parse(app, argc, argv)) return std::nullopt;
  const auto small = [](const char* option, const std::string& word, std::uint64_t least) {
    return static_cast<std::uint32_t>(common::to_count(option, word, least, 1000));
  };
  common::read_device(o, device);
  if (o.gpu) common::refuse("--device", common::in_quotes(device), "a simulated one");
  o.progress = !no_progress && isatty(STDERR_FILENO) == 1;
  if (*pairs) {
    o.facts = common::to_file("--facts", facts, "a file of kernel facts");
    o.rules = {gsched::level_rule::needed};
  }
  if (rule == "own" || rule == "needed")
    o.rules = {rule == "own" ? gsched::level_rule::own : gsched::level_rule::needed};
  else if (!rule.empty())
    common::refuse("--rule", common::in_quotes(rule), "own or needed", gsched::errc::unknown_name);
  if (!real_time.empty()) o.real_time = common::to_list("--real-time", real_time);
  if (!guest.empty()) o.guest = common::to_list("--guest", guest);
  if (*potential) o.known.emplace(o.profiles);
  padding::question& q = o.question;
  q.guests = small("--guests", count, 1);
  q.starts = small("--starts", places, 1);
  q.predicted = small("--predict", simulated, 0);
  q.options.parts = static_cast<std::uint32_t>(
      common::to_count("--parts", number, 1, gsched::pad_options::most_parts));
  q.options.share = common::to_number("--share", share, {0, 1, true});
  if (o.known) note_models(o);
  common::read_outputs(o, json, "", "");
  return o;
}

std::vector<padding::model> models(const common::catalogue& all, const char* option,
                                   const std::vector<std::string>& names,
                                   const gsched::sim::preset& on) {
  std::vector<padding::model> found;
  const auto add = [&](const std::filesystem::path& file) {
    found.push_back(padding::to_model(common::load_model(file, on.sm), on));
  };
  for (const std::string& name : names) add(all.find(option, name));
  if (names.empty())
    for (const auto& [name, file] : all.files()) add(file);
  return found;
}

int serve(options& o) {
  const gsched::sim::preset on = common::find_simulated(o).preset;
  o.question.options.sms = on.sms;
  if (!o.facts.empty()) {
    o.question.options.level = o.rules.front();
    const auto results =
        padding::predict_pairs(padding::read_facts(o.facts, on), o.question.options, on);
    padding::print(std::cout, results, on.laws.graph.gap);
    if (!o.json.empty()) common::save(o.json, [&](std::ostream& to) { write_json(to, results); });
    return 0;
  }
  const common::catalogue& all = *o.known;
  const auto hosts = models(all, "--real-time", o.real_time, on);
  const auto guests = models(all, "--guest", o.guest, on);
  gsched::sim::padded_kernels predictor(on);
  std::vector<padding::potential> results;
  std::optional<common::progress_bar> bar;
  bar.emplace("pairs", hosts.size() * guests.size() * o.rules.size(), o.progress);
  for (const padding::model& host : hosts)
    for (const padding::model& guest : guests)
      for (const gsched::level_rule rule : o.rules) {
        o.question.options.level = rule;
        results.push_back(potential_of(host, guest, o.question, predictor));
        bar->update(results.size());
      }
  bar.reset();
  padding::print(std::cout, results, o.question.predicted > 0);
  if (!o.json.empty())
    common::save(o.json, [&](std::ostream& to) { write_json(to, results, o.question); });
  return 0;
}

} // namespace

int main(int argc, char** argv) { return common::run_main("padding", argc, argv, parse, serve); }

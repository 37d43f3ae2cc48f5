// SPDX-License-Identifier: Apache-2.0
//
// The potential of kernel padding, without running it: how much best-effort work real-time models
// could carry by the rules, and the predicted times of padded kernels.
#include "padding/facts.hpp"
#include "padding/potential.hpp"
#include "padding/report.hpp"

#include "common/cli/command_line.hpp"
#include "common/cli/device_option.hpp"
#include "common/cli/files.hpp"
#include "common/cli/main.hpp"
#include "common/cli/option_values.hpp"
#include "common/cli/output_options.hpp"
#include "common/input/profile_catalogue.hpp"
#include "common/report/progress.hpp"
#include "common/report/save.hpp"
#include "common/run/simulated_backend.hpp"

#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace {

struct options : common::device_choice, common::outputs {
  std::filesystem::path facts; ///< of pairs; empty: potential
  std::vector<std::string> profiles;
  std::optional<common::profile_catalogue> known; ///< of potential
  std::vector<std::string> real_time;
  std::vector<std::string> corunner;
  std::vector<gsched::level_rule> rules{gsched::level_rule::own, gsched::level_rule::needed};
  padding::question question;
};

/// Records the models that will be read, before the outputs are checked.
void record_models(const options& o) {
  for (const auto& [option, names] :
       {std::pair("--real-time", &o.real_time), {"--best-effort", &o.corunner}}) {
    for (const std::string& name : *names) static_cast<void>(o.known->find(option, name));
    if (names->empty()) static_cast<void>(o.known->files());
  }
}

constexpr const char* examples = R"(
Rule 1: a co-located kernel fits beside the real-time kernel on an SM. Rule 2 has two forms: the
real-time kernel keeps all blocks that an SM holds of it alone (own), or as many as it needs
(needed).

Examples
  padding potential --real-time resnet18_b1 --best-effort googlenet_b1,vgg16_b8
      best-effort time that ResNet-18 can carry, by both forms of rule 2
  padding potential --real-time bert_base_b1 --best-effort vgg16_b8 --predict 2
      and what it costs, predicted by the simulated GPU
  padding pairs --facts facts.csv --json pairs.json
      predicted times of measured pairs of kernels; gsched.gpu.padding --facts writes such a file

Exit code: 0; 1 for a failure while running; 2 for a usage or input error, reported in one line.)";

/// The options as typed.
struct raw_options {
  std::string rule, share = "1", parts = "3", corunners = "1", starts = "16", predict = "0", facts,
                    real_time, corunner;
  std::vector<std::string> profiles;
  common::device_option device{{.gpu = false}};
  common::output_options output;
};

void declare(common::command_line& line, raw_options& raw) {
  const auto shared = [&] {
    line.option("--rule", raw.rule, "RULE",
                "The form of rule 2: own or needed; default: needed, or both");
    line.option("--parts", raw.parts, "N", "Best-effort kernels that a padded kernel carries");
    line.option("--share", raw.share, "X",
                "Part of a real-time kernel's time that best-effort\nkernels may use");
    raw.device.declare(line);
    raw.output.declare(line, {.json = "All rows"});
  };
  line.subcommand("potential",
                  "Best-effort time that real-time models could carry, by pairs of models");
  common::declare_profiles(line, raw.profiles);
  line.option("--real-time", raw.real_time, "NAME,...", "These as real-time models; default: all");
  line.option("--best-effort", raw.corunner, "NAME,...",
              "These as best-effort models; default: all");
  line.option("--corunners", raw.corunners, "N", "Best-effort requests at once");
  line.option("--starts", raw.starts, "N", "Places in the best-effort model to begin at");
  line.option("--predict", raw.predict, "N", "Places to simulate, at some cost");
  shared();
  line.subcommand("pairs", "Predicted times of pairs of kernels");
  line.option("--facts", raw.facts, "FILE",
              "CSV of kernels: tools/padding/facts.hpp lists its columns");
  shared();
}

std::optional<options> parse(int argc, char** argv) {
  raw_options raw;
  common::command_line line(
      "padding", "What kernel padding promises, by its rules and by the simulated GPU.", examples);
  declare(line, raw);
  if (!line.parse(argc, argv)) return std::nullopt;
  options o;
  raw.device.read(o);
  if (line.chosen() == "pairs") {
    if (raw.facts.empty()) common::refuse("--facts", "not given", "a file of kernel facts");
    o.facts = common::to_file("--facts", raw.facts, "a file of kernel facts");
    o.rules = {gsched::level_rule::needed};
  }
  if (!raw.rule.empty())
    o.rules = {common::to_choice<gsched::level_rule>(
        "--rule", raw.rule,
        {{"own", gsched::level_rule::own}, {"needed", gsched::level_rule::needed}})};
  if (!raw.real_time.empty()) o.real_time = common::to_list("--real-time", raw.real_time);
  if (!raw.corunner.empty()) o.corunner = common::to_list("--best-effort", raw.corunner);
  if (o.facts.empty()) o.known.emplace(raw.profiles);
  padding::question& q = o.question;
  q.corunners = common::to_small_count("--corunners", raw.corunners, 1, 1000);
  q.starts = common::to_small_count("--starts", raw.starts, 1, 1000);
  q.predicted = common::to_small_count("--predict", raw.predict, 0, 1000);
  q.options.parts =
      common::to_small_count("--parts", raw.parts, 1, gsched::pad_options::most_parts);
  q.options.share = common::to_number("--share", raw.share, {0, 1, true});
  if (o.known) record_models(o);
  raw.output.read(o);
  return o;
}

std::vector<padding::model> models(const common::profile_catalogue& all, const char* option,
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
  const gsched::sim::preset on = common::simulated_gpu_of(o).preset;
  o.question.options.sms = on.sms;
  if (!o.facts.empty()) {
    o.question.options.level = o.rules.front();
    const auto results =
        padding::predict_pairs(padding::read_facts(o.facts, on), o.question.options, on);
    if (!o.quiet) padding::print(std::cout, results, on.laws.graph.gap);
    if (!o.json.empty()) common::save(o.json, [&](std::ostream& to) { write_json(to, results); });
    return 0;
  }
  const common::profile_catalogue& all = *o.known;
  const auto hosts = models(all, "--real-time", o.real_time, on);
  const auto corunners = models(all, "--best-effort", o.corunner, on);
  gsched::sim::padded_kernels predictor(on);
  std::vector<padding::potential> results;
  std::optional<common::progress_bar> bar;
  bar.emplace("pairs", hosts.size() * corunners.size() * o.rules.size(), o.progress);
  for (const padding::model& host : hosts)
    for (const padding::model& corunner : corunners)
      for (const gsched::level_rule rule : o.rules) {
        o.question.options.level = rule;
        results.push_back(potential_of(host, corunner, o.question, predictor));
        bar->update(results.size());
      }
  bar.reset();
  if (!o.quiet) padding::print(std::cout, results, o.question.predicted > 0);
  if (!o.json.empty())
    common::save(o.json, [&](std::ostream& to) { write_json(to, results, o.question); });
  return 0;
}

} // namespace

int main(int argc, char** argv) { return common::run_main("padding", argc, argv, parse, serve); }

// SPDX-License-Identifier: Apache-2.0
#include "plan/options.hpp"

#include "plan/planners.hpp"

#include "parts/command_line.hpp"
#include "parts/values.hpp"

#include <gsched/partition/latency_csv.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <utility>

namespace plan {

namespace {

using gsched::demand;
using gsched::duration;
using gsched::errc;
using gsched::latency_table;
using namespace parts;

constexpr std::size_t most_scenarios = 1'000'000;

constexpr const char* teaching =
    R"(A GPU serves models in batches; each request is to be answered within its model's SLO. A planner
says which partitions of which GPUs serve which models in what batches, so that no request that
comes at the planned rate is late; or that it finds no way. Every plan is checked by a verifier that
shares no code with the planners.

Planners
  sbp           whole GPUs, which models share in time alone (Nexus)
  elastic       partitions as large as each model makes good use of, shared in time as well
                (gpu-lets)
  self_tuning   the same without sharing in time
  best          of all cuts and turns, the fewest SMs that a short search finds, or elastic's
  ideal         the same search until it has found a plan or proven that there is none

Examples
  plan --rates lenet=2000,vgg16=300 --slo lenet=2,vgg16=20 --gpus 1
      who gets which SMs
  plan --scenarios all --models lenet,googlenet,resnet50,ssdlite_mobilenet,vgg16
      every combination of four rates over five models, on four GPUs, by every planner
  plan --rates resnet50=100,vgg16=100 --max-scale
      how much more of both each planner can serve

Exit code: 0, also where there is no plan; 1 for a failure while running; 2 for a usage or input
error, told in one line.)";

struct words {
  std::string table = GSCHED_EXAMPLES_DATA_DIR "/latency_batch_partition.csv", models, slo,
              slo_factor = "2", rates, scenarios, levels = "0,200,400,600", rate_scale = "1",
              gpus = "4", sms = "132", group = "8", planner = "all", json;
};

/// NAME=NUMBER,... of models in the table.
std::map<std::size_t, double> to_numbers(const char* option, const std::string& list,
                                         const latency_table& t, const number_range& range) {
  std::map<std::size_t, double> numbers;
  for (const std::string& item : to_list(option, list)) {
    const std::size_t equals = std::min(item.find('='), item.size());
    const std::string name = item.substr(0, equals);
    const auto model = t.find(name);
    if (!model)
      refuse(option, "no rows of " + in_quotes(name), "a model of the table", errc::unknown_name);
    if (equals == item.size()) refuse(option, in_quotes(item), "MODEL=NUMBER");
    const double n = to_number(option, item.substr(equals + 1), range);
    if (!numbers.emplace(*model, n).second) refuse(option, name + " twice", "each model once");
  }
  return numbers;
}

std::vector<std::size_t> to_models(const std::string& list, const latency_table& t) {
  std::vector<std::size_t> models;
  if (list.empty())
    for (std::size_t m = 0; m < t.size(); ++m) models.push_back(m);
  else
    for (const std::string& name : to_list("--models", list)) {
      const auto m = t.find(name);
      if (!m)
        refuse("--models", "no rows of " + in_quotes(name), "a model of the table",
               errc::unknown_name);
      if (std::find(models.begin(), models.end(), *m) != models.end())
        refuse("--models", name + " twice", "each model once");
      models.push_back(*m);
    }
  return models;
}

/// By model of the table: as given, or that many times what the largest batch, at most 32, takes on
/// all SMs.
std::vector<duration> to_slos(const words& w, const latency_table& t, gsched::sm_count all) {
  const double factor = to_number("--slo-factor", w.slo_factor, {0, 1e6, true, "times"});
  std::vector<duration> slos;
  for (std::size_t m = 0; m < t.size(); ++m) {
    const auto of = t.batches(m);
    const auto above = std::upper_bound(of.begin(), of.end(), 32u);
    const std::uint32_t batch = above == of.begin() ? of.front() : *(above - 1);
    const auto sms = std::max(all, t.sizes(m).front());
    slos.push_back(gsched::from_us(gsched::to_us(t.latency(m, batch, sms)) * factor));
  }
  if (!w.slo.empty())
    for (const auto& [m, ms] : to_numbers("--slo", w.slo, t, {0, 1e6, true, "milliseconds"}))
      slos[m] = gsched::from_us(1e3 * ms);
  return slos;
}

void read_scenarios(options& o, const words& w) {
  const latency_table& t = *o.table;
  const std::vector<duration> slos =
      to_slos(w, t, o.gpus.empty() ? gsched::sm_count{1} : o.gpus[0].sms);
  const double scale = to_number("--rate-scale", w.rate_scale, {0, 1e9, true, "times"});
  if (w.rates.empty() == w.scenarios.empty())
    refuse(w.rates.empty() ? "--rates" : "--scenarios",
           w.rates.empty() ? "not given, nor --scenarios" : "given beside --rates", "one of both");
  const number_range rate{0, 1e9, false, "requests a second"};
  if (!w.rates.empty()) {
    std::vector<demand> demands;
    for (const auto& [m, r] : to_numbers("--rates", w.rates, t, rate))
      demands.push_back({m, r * scale, slos[m]});
    o.scenarios.push_back(std::move(demands));
    return;
  }
  if (w.scenarios != "all")
    refuse("--scenarios", in_quotes(w.scenarios), "all", errc::unknown_name);
  std::vector<double> levels;
  for (const std::string& l : to_list("--levels", w.levels))
    levels.push_back(to_number("--levels", l, rate) * scale);
  const std::vector<std::size_t> models = to_models(w.models, t);
  double n = 1;
  for (std::size_t i = 0; i < models.size(); ++i) n *= static_cast<double>(levels.size());
  if (n > static_cast<double>(most_scenarios))
    refuse("--scenarios",
           std::to_string(levels.size()) + " rates of " + std::to_string(models.size()) + " models",
           "at most " + std::to_string(most_scenarios) + " combinations");
  for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
    std::vector<demand> demands;
    bool any = false;
    for (std::size_t m = 0, rest = i; m < models.size(); ++m, rest /= levels.size()) {
      demands.push_back({models[m], levels[rest % levels.size()], slos[models[m]]});
      any |= demands.back().rate > 0;
    }
    if (any) o.scenarios.push_back(std::move(demands));
  }
  if (o.scenarios.empty()) refuse("--levels", "no rate above 0", "one at least");
}

options read(const words& w) {
  options o;
  o.table_name = w.table;
  o.table = gsched::read_latency_table(to_file("--table", w.table, "a CSV file"));
  const gsched::gpu_shape shape{
      gsched::sm_count{static_cast<std::uint32_t>(to_count("--sms", w.sms, 1, 100000))},
      gsched::sm_count{static_cast<std::uint32_t>(to_count("--group", w.group, 1, 100000))}};
  o.gpus.assign(to_count("--gpus", w.gpus, 0, 10000), shape);
  for (const std::string& name :
       to_list("--planner", w.planner == "all" ? all_planners() : w.planner)) {
    if (!is_planner(name))
      refuse("--planner", "unknown planner " + in_quotes(name), "all, or some of " + all_planners(),
             errc::unknown_name);
    if (std::find(o.planners.begin(), o.planners.end(), name) != o.planners.end())
      refuse("--planner", name + " twice", "each once");
    o.planners.push_back(name);
  }
  read_scenarios(o, w);
  for (const std::vector<demand>& s : o.scenarios) gsched::check(s, *o.table);
  outputs files;
  read_outputs(files, w.json, "", "");
  o.json = files.json;
  return o;
}

} // namespace

std::optional<options> parse_options(int argc, char** argv) {
  words w;
  bool max_scale = false;
  CLI::App app("Plans which partitions of which GPUs serve which models, by several planners.");
  app.name("plan");
  const auto add = [&](const char* name, std::string& word, const char* type, const char* help) {
    app.add_option(name, word, help)->type_name(type)->capture_default_str();
  };
  add("--table", w.table, "FILE", "latencies: model,batch,sms,latency_us");
  add("--rates", w.rates, "MODEL=R,...", "requests a second");
  add("--scenarios", w.scenarios, "all", "in place of --rates: all combinations of --levels");
  add("--levels", w.levels, "R,...", "--scenarios: requests a second of a model");
  add("--models", w.models, "MODEL,...", "--scenarios: of these; default: all of the table");
  add("--rate-scale", w.rate_scale, "X", "times all rates");
  add("--slo", w.slo, "MODEL=MS,...", "latency that no request may exceed");
  add("--slo-factor", w.slo_factor, "X",
      "of models without --slo: times the latency of a batch of 32 on all SMs");
  add("--gpus", w.gpus, "N", "GPUs of one kind");
  add("--sms", w.sms, "N", "SMs of a GPU");
  add("--group", w.group, "N", "SMs of a group: partitions are of whole groups");
  add("--planner", w.planner, "P,...", "all, or some of those below");
  app.add_flag("--max-scale", max_scale, "the largest factor on the rates that still has a plan");
  add("--json", w.json, "FILE", "write all results to this file");
  app.footer(teaching);
  if (!parts::parse(app, argc, argv)) return std::nullopt;
  options o = read(w);
  o.max_scale = max_scale;
  return o;
}

} // namespace plan

// SPDX-License-Identifier: Apache-2.0
#include "plan/options.hpp"

#include "common/command_line.hpp"
#include "common/model_values.hpp"
#include "common/values.hpp"

#include <gsched/io/latency_csv.hpp>
#include <gsched/io/solo_csv.hpp>
#include <gsched/partition/linear_interference.hpp>

#include <CLI/CLI.hpp>

#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>

namespace plan {

namespace {

using common::in_quotes;
using common::refuse;
using common::to_count;
using common::to_file;

constexpr const char* teaching =
    R"(A GPU serves models in batches; each request is to be answered within its model's SLO. A planner
says which partitions of which GPUs serve which models in what batches, so that no request that
comes at the planned rate is late; or that it finds no way. Every plan is checked by a verifier that
shares the table of latencies and the shapes of GPUs with the planners, and none of their steps.

Planners
  sbp           whole GPUs, which models share in time alone (Nexus)
  elastic       partitions as large as each model makes good use of, shared in time as well
                (gpu-lets)
  self_tuning   the same without sharing in time
  best          of all cuts and turns, the fewest SMs that a short search finds, or elastic's
  ideal         the same search until it has found a plan or proven that there is none
  all           these five

Apps
  An app is a graph of models, as game and traffic that ship: a request for it asks each of them, and
  is answered when they are. Its SLO is the longest of its models', as in the gpu-lets paper, unless
  --slo says another, and is shared out over the stages of each way through it.

Interference
  Partitions of a GPU share its L2 and DRAM and slow each other. NAME+int, as elastic+int or
  all+int, is NAME told by how much, and plans for it; NAME alone plans as if each partition had the
  GPU to itself. sbp has whole GPUs and needs no telling. Where interference is known, every plan is
  checked with it too: "holds" counts the plans that keep what they promise then, "or slower" also
  those that do in cycles as long as their batches take then. In the others a batch may be late, or
  more requests come in a cycle than its batches take.

Examples
  plan --rates lenet=2000,vgg16=300 --slo lenet=2,vgg16=20 --gpus 1
      who gets which SMs
  plan --rates lenet=9000,resnet50=900,vgg16=700 --planner elastic,elastic+int --plot plan.svg
      who gets which SMs with and without interference, drawn
  plan --scenarios all --models lenet,googlenet,resnet50,ssdlite_mobilenet,vgg16 \
    --levels 0,200,400,600 --rate-scale 20 --planner all,elastic+int,best+int --json plans.json
      every combination of four rates over five models, on four GPUs
  plan --app game=50,traffic=50 --max-scale
      how much more of both at once each planner can serve
  plan --rates-file rates.csv --max-scale
      how much more of each of its scenarios each planner can serve; rates.csv begins
        scenario,model,rate
        morning,resnet50,100
        morning,vgg16,100
        evening,lenet,500

Exit code: 0, also where there is no plan; 1 for a failure while running; 2 for a usage or input
error, told in one line.)";

struct words {
  scenario_words of;
  std::string table = common::shipped("latency_batch_partition.csv").string(), interference,
              solo = common::shipped("solo_metrics.csv").string(), gpus = "4", sms = "132",
              group = "8", planner = "all", threads, json, plot;
  bool max_scale = false, no_suggest = false, no_progress = false;
};

/// The law that ships where a planner is to be told and no other is given.
void read_interference(options& o, const words& w) {
  const auto to_tell = std::find_if(o.planners.begin(), o.planners.end(),
                                    [](const planner_choice& c) { return c.with_interference; });
  o.interference = w.interference;
  if (w.interference.empty()) o.interference = to_tell == o.planners.end() ? "none" : "h200";
  if (o.interference == "none") {
    if (to_tell != o.planners.end())
      refuse("--planner", to_tell->name() + " beside --interference none",
             to_tell->base + ", or what there is to tell");
    return;
  }
  o.law = common::to_law("--interference", o.interference);
  o.solo = gsched::read_solo_table(to_file("--solo", w.solo, "a CSV file"));
  for (const scenario& s : o.scenarios) gsched::check_metrics(s.demands, *o.table, o.solo);
}

options read(const words& w) {
  options o;
  o.table_name = w.table;
  o.table = gsched::read_latency_table(to_file("--table", w.table, "a CSV file"));
  const gsched::gpu_shape shape = common::to_shape(w.sms, w.group);
  o.gpus.assign(to_count("--gpus", w.gpus, 0, 10000), shape);
  o.planners = read_planners(w.planner);
  scenarios asked = read_scenarios(w.of, *o.table, shape.sms);
  o.apps = std::move(asked.apps);
  o.scenarios = std::move(asked.all);
  o.uses_slo_factor = asked.uses_slo_factor;
  for (const scenario& s : o.scenarios) {
    gsched::check(s.demands, *o.table);
    common::check_sizes(s.demands, *o.table, shape.sms);
  }
  read_interference(o, w);
  if (w.max_scale && !w.plot.empty())
    refuse("--plot", "given beside --max-scale", "one of both, which makes no plans to draw");
  common::outputs files;
  common::read_outputs(files, w.json, "", w.plot);
  o.json = files.json;
  o.plot = files.plot;
  o.threads = common::read_threads(w.threads, !w.threads.empty(), {}, files);
  o.max_scale = w.max_scale;
  o.suggests = !w.no_suggest;
  o.progress = !w.no_progress && isatty(STDERR_FILENO) == 1;
  return o;
}

} // namespace

question question_of(const options& o, std::size_t scenario) {
  question q{*o.table, o.scenarios[scenario].demands, o.gpus, std::nullopt};
  if (o.law) q.beside.emplace(*o.table, o.solo, *o.law);
  return q;
}

std::optional<options> parse_options(int argc, char** argv) {
  words w;
  CLI::App app("Plans which partitions of which GPUs serve which models, by several planners.");
  app.name("plan");
  const auto add = [&](const char* name, std::string& word, const char* type, const char* help) {
    app.add_option(name, word, help)->type_name(type)->capture_default_str();
  };
  add("--table", w.table, "FILE", "latencies: model,batch,sms,latency_us");
  add("--rates", w.of.rates, "MODEL=R,...", "requests a second");
  add("--app", w.of.apps, "APP=R,...", "beside --rates or alone: game, traffic or a file");
  add("--rates-file", w.of.file, "FILE",
      "in place of --rates: scenario,model,rate, or model,rate;\na model may be an app");
  add("--scenarios", w.of.scenarios, "all", "in place of --rates: all combinations of --levels");
  add("--levels", w.of.levels, "R,...", "--scenarios: requests a second of a model");
  add("--models", w.of.models, "MODEL,...", "--scenarios: of these; default: all of the table");
  add("--rate-scale", w.of.scale, "X", "times all rates");
  add("--slo", w.of.slo, "NAME=MS,...", "latency that no request of a model, or app, may exceed");
  add("--slo-factor", w.of.slo_factor, "X",
      "of models without --slo: times the latency of a batch of 32 on all SMs");
  add("--gpus", w.gpus, "N", "GPUs of one kind");
  add("--sms", w.sms, "N", "SMs of a GPU");
  add("--group", w.group, "N", "SMs of a group: partitions are of whole groups");
  add("--planner", w.planner, "P,...", "all, or some of those below, with +int or without");
  add("--interference", w.interference, "F",
      "how partitions slow each other: none, h200 or a file\n"
      "that interference fit writes; default: h200 where a\nplanner is NAME+int, else none");
  add("--solo", w.solo, "FILE", "what each model takes of L2 and DRAM, for interference");
  app.add_flag("--max-scale", w.max_scale, "the largest factor on the rates that still has a plan");
  app.add_flag("--no-suggest", w.no_suggest,
               "of one scenario without a plan: do not search for the largest factor on the rates\n"
               "that has one, which may take as long as a hundred plans");
  app.add_option(
         "--threads", w.threads,
         "on which plans are made side by side, with the same results; default: as many as\n"
         "this machine runs at once")
      ->type_name("N");
  add("--json", w.json, "FILE", "write all results to this file");
  add("--plot", w.plot, "FILE",
      "draw the plans (.svg, .png or .pdf), or of several\nscenarios how many each planner serves");
  app.add_flag("--no-progress", w.no_progress, "no progress bar on a terminal");
  app.footer(teaching);
  if (!common::parse(app, argc, argv)) return std::nullopt;
  options o = read(w);
  common::refuse_unused(app, !w.of.scenarios.empty(), {"--levels", "--models"},
                        "without --scenarios", "it beside --scenarios all");
  common::refuse_unused(app, o.uses_slo_factor, {"--slo-factor"},
                        "where --slo names every model that has a rate", "one of both");
  common::refuse_unused(app, o.law.has_value(), {"--solo"}, "where no interference is asked for",
                        "--interference or a planner with +int beside it");
  common::refuse_unused(app, !o.max_scale && o.scenarios.size() == 1, {"--no-suggest"},
                        "beside --max-scale or for several scenarios, where nothing is suggested",
                        "it for one scenario alone");
  return o;
}

} // namespace plan

// SPDX-License-Identifier: Apache-2.0
#include "plan/options.hpp"

#include "common/cli/command_line.hpp"
#include "common/cli/device_option.hpp"
#include "common/cli/files.hpp"
#include "common/cli/option_values.hpp"
#include "common/cli/output_options.hpp"
#include "common/input/measured_on.hpp"
#include "common/input/profile_catalogue.hpp"
#include "common/input/shared_sm_options.hpp"
#include "common/input/table_options.hpp"

#include <gsched/io/latency_csv.hpp>
#include <gsched/io/solo_csv.hpp>
#include <gsched/partition/contention_interference.hpp>

#include <algorithm>
#include <string>
#include <utility>

namespace plan {

namespace {

using common::in_quotes;
using common::refuse;
using common::to_count;
using common::to_file;

constexpr const char* planners_and_examples =
    R"(
A GPU serves models in batches; each request has to be answered within the SLO of its model. A
planner decides which partitions of which GPUs serve which models in what batches, so that no
request is late at the planned rates; or it finds no plan. Every plan is checked by a verifier that
shares the table of latencies and the shapes of GPUs with the planners, and none of their steps.

Planners
  sbp           squishy bin packing: whole GPUs, shared in time alone (Nexus)
  sbp_ideal     the same searched until a plan is found, or proven impossible
  gpulet        elastic partitioning as the gpu-lets paper has it: at most two partitions of a GPU, of
                the size at the knee of what each model serves, also shared in time
  gpulet_cuts   gpulet on every choice of one cut for each GPU: the paper's ideal scheduler
  gpulet_ideal  at most two partitions of a GPU, of any sizes, searched until a plan is found, or proven
                impossible
  self_tuning   gpulet without sharing in time: the paper's guided self-tuning
  elastic       elastic partitioning, improved: any number of partitions, of the size that each model
                uses best
  best          a short search over all partitions and cycles for the fewest SMs, or elastic's plan
  ideal         the same search until a plan is found, or proven impossible
  all           these nine

Apps
  An app is a graph of models; game and traffic ship. A request of an app is a request of each of
  its models, and is answered when all of these are. Its SLO is the longest of its models', as in
  the gpu-lets paper, unless --slo gives one, and is divided over the stages of each path.

Interference
  Partitions of a GPU share its L2 and DRAM and slow each other. NAME+int, as elastic+int or
  all+int, is NAME with a prediction of that slow-down; NAME alone plans as if each partition had
  the GPU to itself. sbp and sbp_ideal use whole GPUs, without interference. Where a prediction is given, every
  plan is also verified with it: "holds" counts the plans that still meet all SLOs, "or slower" also
  those that do in cycles as long as their batches then take. In the other plans a batch can be
  late, or more requests arrive in a cycle than its batches take.
  NAME+share is NAME+int that may also let models run at the same time on the same SMs, where it has
  no plan otherwise, or one on more GPUs or SMs, or as many but with a worst latency nearer to its
  SLO. The slow-downs there are predicted from the kernels of --profiles, plus 20%.

Examples
  plan --rates lenet=2000,vgg16=300 --slo lenet=2,vgg16=20 --gpus 1
      the partitions of one GPU, by every planner
  plan --rates lenet=9000,resnet50=900,vgg16=700 --planner elastic,elastic+int --plot plan.svg
      plans with and without a prediction of interference, as a picture
  plan --scenarios all --models lenet,googlenet,resnet50,ssdlite_mobilenet,vgg16 \
    --levels 0,200,400,600 --rate-scale 20 --planner all,elastic+int,best+int --json plans.json
      every combination of four rates over five models, on four GPUs
  plan --app game=50,traffic=50 --max-scale
      how far both rates can grow together, by planner
  plan --rates-file rates.csv --max-scale
      how far the rates of each scenario can grow, by planner; rates.csv begins
        scenario,model,rate
        morning,resnet50,100
        morning,vgg16,100
        evening,lenet,500

Exit code: 0, also where there is no plan; 1 for a failure while running; 2 for a usage or input
error, reported in one line.)";

/// The options as typed.
struct raw_options : scenario_texts {
  std::string planner = "all", interference;
  std::vector<std::string> profiles;
  bool max_scale = false, no_suggest = false;
  common::threads_option threads;
  common::output_options output;

  raw_options() { gpus = "4"; }
};

void declare(common::command_line& line, raw_options& raw) {
  declare_demands(line, raw);
  line.option("--rates-file", raw.file, "FILE",
              "In place of --rates, as CSV: scenario,model,rate, or\nmodel,rate; a model may be an "
              "app");
  line.option("--scenarios", raw.scenarios, "all",
              "In place of --rates: all combinations of --levels");
  line.option("--levels", raw.levels, "R,...", "--scenarios: requests a second of a model");
  line.option("--models", raw.models, "MODEL,...",
              "--scenarios: of these models; default: all of the table");
  declare_gpus(line, raw, "GPUs of one kind");
  line.group("Plans");
  line.option("--planner", raw.planner, "P,...",
              "all, or some of the planners below, with +int, +share or\nneither");
  line.option("--interference", raw.interference, "F",
              "How partitions slow each other: none, h200 or a file that\ninterference fit writes; "
              "default: h200 where a planner is\nNAME+int, otherwise none");
  declare_solo(line, raw);
  common::declare_profiles(line, raw.profiles);
  line.flag("--max-scale", raw.max_scale, "Find the largest factor on the rates that has a plan");
  line.flag(
      "--no-suggest", raw.no_suggest,
      "Where one scenario has no plan, do not search for the\nlargest factor on the rates that "
      "has one, which may take as\nlong as a hundred plans");
  raw.threads.declare(line, "Threads on which plans are made in parallel, with the same\nresults; "
                            "default: all of this machine");
  raw.output.declare(line, {.plot = "The plans (.svg, .png or .pdf), or of several scenarios\nhow "
                                    "many each planner serves (needs gnuplot)"});
}

bool shares_sms(const options& o) {
  return std::any_of(o.planners.begin(), o.planners.end(),
                     [](const planner_choice& c) { return c.shares_sms; });
}

/// Without --interference, the law that ships where a planner uses one.
void read_interference(options& o, const raw_options& raw) {
  const auto informed = std::find_if(o.planners.begin(), o.planners.end(),
                                     [](const planner_choice& c) { return c.with_interference; });
  o.interference = raw.interference;
  if (raw.interference.empty()) o.interference = informed == o.planners.end() ? "none" : "h200";
  if (o.interference == "none") {
    if (informed != o.planners.end())
      refuse("--planner", informed->name() + " beside --interference none",
             informed->base + ", or a law of interference");
    return;
  }
  o.law = common::to_law("--interference", o.interference);
  o.solo = gsched::load_solo_table(to_file("--solo", raw.solo, "a CSV file"));
  std::vector<common::measured_file> measured{
      {"--table", raw.table},
      {"--solo", raw.solo},
      {"--interference", common::to_law_file("--interference", o.interference)}};
  if (shares_sms(o) && !raw.profiles.empty())
    for (common::measured_file& f : common::profile_catalogue(raw.profiles).one_of_each_folder())
      measured.push_back(std::move(f));
  common::check_machines("plan", measured);
  for (const scenario& s : o.scenarios) gsched::check_metrics(s.demands, *o.table, o.solo);
  if (!shares_sms(o)) return;
  std::vector<gsched::model_demand> all;
  for (const scenario& s : o.scenarios) all.insert(all.end(), s.demands.begin(), s.demands.end());
  o.on_shared_sms = common::load_shared_sms(raw.profiles, raw.table, *o.table, o.solo, all, *o.law);
}

options read(const raw_options& raw) {
  options o;
  o.table_name = raw.table;
  o.table = gsched::load_latency_table(to_file("--table", raw.table, "a CSV file"));
  const gsched::gpu_shape shape = common::to_shape(raw);
  o.assumed = common::assumed_shape(raw);
  o.gpus.assign(to_count("--gpus", raw.gpus, 0, 10000), shape);
  o.planners = read_planners(raw.planner);
  scenarios given = read_scenarios(raw, *o.table, shape.sms);
  o.apps = std::move(given.apps);
  o.scenarios = std::move(given.all);
  o.uses_slo_factor = given.uses_slo_factor;
  for (const scenario& s : o.scenarios) {
    gsched::check(s.demands, *o.table);
    common::check_sizes(s.demands, *o.table, shape.sms);
  }
  read_interference(o, raw);
  raw.output.read(o);
  o.threads = raw.threads.read({}, o);
  o.max_scale = raw.max_scale;
  o.suggests = !raw.no_suggest;
  return o;
}

} // namespace

question question_of(const options& o, std::size_t scenario) {
  question q{*o.table, o.scenarios[scenario].demands, o.gpus, std::nullopt};
  if (o.law)
    q.beside.emplace(*o.table, o.solo, *o.law, o.on_shared_sms.get(), gsched::shared_sm_margin);
  return q;
}

std::optional<options> parse_options(int argc, char** argv) {
  raw_options raw;
  common::command_line line(
      "plan", "Plans which partitions of which GPUs serve which models, by several planners.",
      planners_and_examples);
  declare(line, raw);
  if (!line.parse(argc, argv)) return std::nullopt;
  options o = read(raw);
  line.refuse_unused(shares_sms(o), {"--profiles"}, "where no planner shares SMs",
                     "a planner with +share beside it");
  line.refuse_unused(!raw.scenarios.empty(), {"--levels", "--models"}, "without --scenarios",
                     "it beside --scenarios all");
  line.refuse_unused(!o.max_scale, {"--plot"}, "beside --max-scale, which makes no plans to draw",
                     "one of both");
  check_slo_factor(line, o.uses_slo_factor);
  line.refuse_unused(o.law.has_value(), {"--solo"}, "where no interference is asked for",
                     "--interference or a planner with +int beside it");
  line.refuse_unused(!o.max_scale && o.scenarios.size() == 1, {"--no-suggest"},
                     "beside --max-scale or for several scenarios, where nothing is suggested",
                     "it for one scenario alone");
  return o;
}

} // namespace plan

// SPDX-License-Identifier: Apache-2.0
#include "serve_partitions/options.hpp"

#include "common/command_line.hpp"
#include "common/known_apps.hpp"
#include "common/model_values.hpp"
#include "common/planner_list.hpp"
#include "common/values.hpp"

#include <gsched/io/latency_csv.hpp>
#include <gsched/io/rate_curve_csv.hpp>
#include <gsched/io/solo_csv.hpp>
#include <gsched/partition/linear_interference.hpp>
#include <gsched/serving/graph_batches.hpp>
#include <gsched/workload/app_demands.hpp>

#include <CLI/CLI.hpp>

#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace serve_partitions {

namespace {

using gsched::demand;
using gsched::duration;
using gsched::errc;
using gsched::time_point;
using namespace gsched::sim;
using namespace common;

constexpr const char* teaching =
    R"(Requests come at random (Poisson) at the rates given. A planner says which partitions of which GPUs
serve which models in what batches; a frontend keeps requests for their partition, begins a batch
when it is full, when its turn in the cycle has come or when its oldest would else be late, and drops
who cannot be in time any more. Each period it plans again for the rates that it has measured, and
goes over to the new plan while batches of the old one end. GPUs are simulated, batch by batch, or
real ones: with --device cuda stand-ins run on partitions of the GPU, a graph for each batch, which
take the table's time there; plans are made, and their partitions, while the plan before serves.

A violation is a request that was late or dropped.

Plans are for more than the rates: --headroom times as much, for rates that turn out higher, and
--clusters deviations of what comes within an SLO, for Poisson arrivals come in clusters; where there
is no room for that, for as much as there is room for, and the report says so. With as much as is the
default at most 1% are late or dropped, also where rates come up to 20% off and batches slow each
other as on an H200; docs/partitions.md tells how that was found.

An app is a graph of models, and on time when all of its answers are; its SLO is the longest of
its models', unless --slo says another, and is shared out over the stages of each way through it. Apps
game and traffic ship.

Examples
  serve_partitions --rates lenet=4000,resnet50=800,vgg16=300 --gpus 2
      a minute of it
  serve_partitions --rates resnet50=1000,vgg16=500 --rate-error 0.2
      rates are up to 20% off, anew each period
  serve_partitions --rates resnet50=1000,vgg16=500 --plan-interference none
      with a planner that does not know that batches slow each other
  serve_partitions --app game=300,traffic=200 --seconds 3600
      an hour
  serve_partitions --rate-trace rates.csv --period 5 --plot waves.svg
      rates that change: lines of time_s,model,rate; and a picture of how plans followed them
  serve_partitions --device cuda --rates resnet50=300,vgg16=100 --seconds 10
      on a real GPU

Exit code: 0, whatever was late; 1 for a failure while running; 2 for a usage or input error, told in
one line.)";

struct words {
  std::string table = common::shipped("latency_batch_partition.csv").string(), slo,
              slo_factor = "2", rates, apps, rate_scale = "1", rate_trace, rate_error = "0",
              device = "sim", gpus, batches, added = "", sms = "132", group = "8", planner = "best",
              interference, plan_interference = "same",
              solo = common::shipped("solo_metrics.csv").string(), seconds = "60", period = "20",
              headroom = "1.2", clusters = "1.25", tolerance = "0.1", fall = "0.3", start = "due",
              prepare = "0", switch_us = "100", seed = "1", json, plot;
  bool once = false, max_rates = false, no_progress = false;
};

/// Who asks for what, and what may take how long.
void read_rates(options& o, const words& w, gsched::sm_count all) {
  const double scale = to_number("--rate-scale", w.rate_scale, {0, 1e9, true, "times"});
  std::map<std::string, rate_curve> trace;
  if (!w.rate_trace.empty())
    trace = read_rate_curves(to_file("--rate-trace", w.rate_trace, "a CSV file"));
  known_apps known(*o.table);
  std::vector<std::pair<std::size_t, rate_curve>> offered;
  for (const known_apps::asked& a : known.read(w.rates, w.apps)) {
    const std::string& name = known[a.which].name;
    if (a.rate)
      offered.emplace_back(a.which, rate_curve{{time_point{}, *a.rate}});
    else if (!trace.contains(name))
      refuse("--app", in_quotes(name) + " without a rate",
             "NAME=RATE, or rates of " + name + " in --rate-trace");
  }
  for (const auto& [name, curve] : trace) {
    const auto which = known.find(name);
    if (!which)
      refuse("--rate-trace", "no rows of " + in_quotes(name), "a model of the table, or an app",
             errc::unknown_name);
    for (const auto& [other, rates] : offered)
      if (other == *which) refuse("--rate-trace", name + " has rates twice", "once");
    offered.emplace_back(*which, curve);
  }
  if (offered.empty()) refuse("--rates", "not given, nor --app or --rate-trace", "one of them");
  std::set<std::size_t> asked_for;
  for (const auto& [which, curve] : offered) asked_for.insert(which);
  known.set_slos(w.slo, w.slo_factor, all, asked_for);
  o.uses_slo_factor = known.uses_slo_factor();
  std::vector<app> apps;
  for (auto& [which, curve] : offered) {
    for (rate_step& s : curve) s.rate *= scale;
    apps.push_back(known[which]);
    check(apps.back(), *o.table, known.slos());
    o.apps.push_back({apps.back(), std::move(curve), {}, 0});
  }
  o.slos = model_slos(apps, known.slos());
}

void read_error(options& o, const words& w) {
  std::string part = w.rate_error;
  o.error.is_fixed = part.rfind("fixed:", 0) == 0;
  if (o.error.is_fixed) part.erase(0, 6);
  o.error.part = to_number("--rate-error", part,
                           o.error.is_fixed ? number_range{-0.99, 100, false, "of the rate"}
                                            : number_range{0, 0.99, false, "of the rate"});
  o.error.every = o.service.period;
  for (std::size_t i = 0; i < o.apps.size(); ++i) {
    offered_app& a = o.apps[i];
    a.seed = o.seed * 1000003 + 2 * i;
    a.comes = with_error(a.expected, o.error, time_point{o.service.length}, a.seed + 1);
  }
}

void read_service(options& o, const words& w) {
  const auto seconds = [](const char* option, const std::string& word, double least) {
    return gsched::from_us(1e6 * to_number(option, word, {least, 1e6, least == 0, "seconds"}));
  };
  plan_service_options& s = o.service;
  s.length = seconds("--seconds", w.seconds, 0);
  s.period = seconds("--period", w.period, 1e-3);
  const bool is_whole = w.planner == no_planner;
  s.replans = !w.once && !is_whole; // its one plan holds for any rates
  o.prepare = gsched::from_us(1e6 * to_number("--prepare", w.prepare, {0, 1e6, false, "seconds"}));
  s.switch_cost = common::to_us("--switch-us", w.switch_us, 1e9);
  s.replanning.headroom = to_number("--headroom", w.headroom, {0, 1000, true, "times"});
  s.replanning.clusters = to_number("--clusters", w.clusters, {0, 1000, false, "deviations"});
  if (is_whole) { // which provides for no rates
    s.replanning.headroom = 1;
    s.replanning.clusters = 0;
  }
  s.replanning.tolerance = to_number("--tolerance", w.tolerance, {0, 1000, false, "of the rate"});
  s.replanning.fall = to_number("--fall", w.fall, {0, 1, false, "of the rate"});
  if (w.start != "due" && w.start != "at_once")
    refuse("--start", in_quotes(w.start), "due or at_once", errc::unknown_name);
  s.frontend.start =
      w.start == "due" ? gsched::batch_start::when_due : gsched::batch_start::at_once;
}

/// What runs the batches, and how many they may be of.
void read_device(options& o, const words& w) {
  if (w.device != "sim") {
    if (w.device.rfind("cuda", 0) != 0)
      refuse("--device", in_quotes(w.device), "sim, cuda or cuda:N", errc::unknown_name);
    common::read_device(o.device, w.device);
    if (!o.device.queues) o.device.queues = 32; // partitions must not wait for each other in one
    if (!w.interference.empty() && w.interference != "none")
      refuse(
          "--interference", in_quotes(w.interference) + " with --device " + w.device,
          "none: a real GPU slows batches by itself; --plan-interference says what to plan with");
    if (w.prepare != "0")
      refuse("--prepare", in_quotes(w.prepare) + " with --device " + w.device,
             "0: partitions take what they take");
  }
  const bool is_real = o.device.gpu.has_value();
  o.gpus.assign(to_count("--gpus", w.gpus.empty() ? is_real ? "1" : "4" : w.gpus, 0, 10000),
                to_shape(w.sms, w.group));
  const duration added =
      common::to_us("--added-us", w.added.empty() ? is_real ? "30" : "0" : w.added, 1e9);
  const bool all = w.batches == "all" || (w.batches.empty() && !is_real);
  if (all && added == duration::zero()) return;
  std::uint32_t most = 32;
  for (std::size_t m = 0; all && m < o.table->size(); ++m)
    most = m == 0 ? o.table->batches(m).back() : std::min(most, o.table->batches(m).back());
  if (all || w.batches.empty()) {
    for (std::uint32_t b = 1; b <= most; b = all ? b + 1 : 2 * b) o.batches.push_back(b);
  } else {
    o.batches = to_counts("--batches", w.batches, 1, 100000);
  }
  o.table = gsched::with_graphs_of(*o.table, o.batches, added);
}

options read(const words& w) {
  options o;
  o.table_name = w.table;
  o.table = gsched::read_latency_table(to_file("--table", w.table, "a CSV file"));
  const gsched::sm_count all = to_shape(w.sms, w.group).sms;
  o.planner = w.planner;
  o.max_rates = w.max_rates;
  if (w.planner != no_planner && !is_planner(w.planner))
    refuse("--planner", "unknown planner " + in_quotes(w.planner),
           "one of " + all_planners() + ", or " + no_planner, errc::unknown_name);
  o.seed = to_count("--seed", w.seed, 0, ~std::uint64_t{0} / 1000003 - 1);
  read_service(o, w);
  read_rates(o, w, all);
  read_device(o, w);
  read_error(o, w);
  std::vector<demand> demands;
  for (const offered_app& a : o.apps)
    for (const app_stage& s : a.what.stages) demands.push_back({s.model, 1, o.slos[s.model]});
  gsched::check(demands, *o.table);
  check_sizes(demands, *o.table, all);
  const std::string truth = !w.interference.empty() ? w.interference
                            : o.device.gpu || w.planner == no_planner
                                ? "none" // of partitions beside each other
                                : "h200";
  o.truth = to_law("--interference", truth);
  o.planned =
      w.plan_interference == "same" ? o.truth : to_law("--plan-interference", w.plan_interference);
  if (o.truth || o.planned) {
    o.solo = gsched::read_solo_table(to_file("--solo", w.solo, "a CSV file"));
    for (const demand& d : demands)
      if (const std::string& name = o.table->name(d.model); !o.solo.has(name))
        refuse("--interference", name + ": no solo metrics", "rows of it in --solo, or none",
               errc::unknown_name);
  }
  o.progress = !w.no_progress && isatty(STDERR_FILENO) == 1;
  outputs files;
  read_outputs(files, w.json, "", w.plot);
  o.json = files.json;
  o.plot = files.plot;
  return o;
}

} // namespace

std::optional<options> parse_options(int argc, char** argv) {
  words w;
  CLI::App app("Serves models on partitions of GPUs, by plans that follow the rates.");
  app.name("serve_partitions");
  const auto add = [&](const char* name, std::string& word, const char* type, const char* help) {
    app.add_option(name, word, help)->type_name(type)->capture_default_str();
  };
  add("--table", w.table, "FILE", "latencies by batch and SMs: model,batch,sms,latency_us");
  add("--rates", w.rates, "MODEL=RATE,...", "requests a second");
  add("--app", w.apps, "APP=RATE,...",
      "game, traffic or a file; with its rate, if no trace has it");
  add("--rate-trace", w.rate_trace, "FILE",
      "rates that change, of models and apps: time_s,model,rate");
  add("--rate-scale", w.rate_scale, "X", "times all rates");
  app.add_flag("--max-rates", w.max_rates,
               "rates are only proportions: the most of them that there is a plan for");
  add("--rate-error", w.rate_error, "E",
      "rates come up to that part off, drawn each period; fixed:E for always that");
  add("--slo", w.slo, "NAME=MS,...", "latency that no request of a model, or app, may exceed");
  add("--slo-factor", w.slo_factor, "X",
      "of models without --slo: times the latency of a batch of 32 on all SMs");
  add("--device", w.device, "D", "sim, or cuda:N: real GPUs from that number on");
  add("--gpus", w.gpus, "N", "GPUs of one kind; 4, or 1 real one");
  add("--batches", w.batches, "B,...",
      "that there are graphs for: others run as the next larger; all, or powers of 2 on real GPUs");
  add("--added-us", w.added, "US",
      "to each batch of --batches, for launch and notice; 0, or 30 on real GPUs");
  add("--sms", w.sms, "N", "SMs of a GPU");
  add("--group", w.group, "N", "SMs of a group: partitions are of whole groups");
  add("--planner", w.planner, "P",
      "sbp, elastic, self_tuning, best or ideal; plan --help tells. whole: no partitions, one "
      "plan");
  add("--headroom", w.headroom, "X", "plans are for that many times the rates, if there is room");
  add("--clusters", w.clusters, "Z", "and for Z deviations of what comes within an SLO");
  add("--tolerance", w.tolerance, "X", "a plan is kept while no rate is that part above its");
  add("--fall", w.fall, "X", "nor that part below; a rate that falls less may rise again");
  add("--interference", w.interference, "F",
      "how batches slow each other: none, h200 or a file;\nh200, but real GPUs do by themselves");
  add("--plan-interference", w.plan_interference, "F", "what is planned with: same, none, ...");
  add("--solo", w.solo, "FILE", "what each model takes of L2 and DRAM, for interference");
  add("--start", w.start, "WHEN", "of a batch: due, or at_once where a partition is idle");
  add("--seconds", w.seconds, "S", "for which requests come");
  add("--period", w.period, "S", "from one look at the rates to the next");
  app.add_flag("--once", w.once, "plan once, for the rates given");
  add("--prepare", w.prepare, "S", "from a plan to its partitions, in the background");
  add("--switch-us", w.switch_us, "US", "until a new partition begins");
  add("--seed", w.seed, "N", "of what is random");
  add("--json", w.json, "FILE", "write all results to this file");
  add("--plot", w.plot, "FILE", "draw rates, violations and plans over time (.svg, .png or .pdf)");
  app.add_flag("--no-progress", w.no_progress, "no progress bar on a terminal");
  app.footer(teaching);
  if (!common::parse(app, argc, argv)) return std::nullopt;
  refuse_unused(app, !w.max_rates, {"--rate-scale"}, "beside --max-rates, which finds the scale",
                "one of both");
  refuse_unused(app, !w.once, {"--tolerance", "--fall"}, "beside --once, which plans for good",
                "one of both");
  refuse_unused(app, !w.once, {"--prepare", "--switch-us"},
                "beside --once, where no plan follows the first", "one of both");
  const bool has_plans = w.planner != no_planner;
  const std::string on_whole = "beside --planner whole, which makes no partitions";
  refuse_unused(app, has_plans,
                {"--headroom", "--clusters", "--tolerance", "--fall", "--prepare", "--switch-us",
                 "--group", "--interference", "--plan-interference", "--solo"},
                on_whole, "a planner");
  options o = read(w);
  refuse_unused(app, o.uses_slo_factor, {"--slo-factor"},
                "where --slo names every model that has a rate", "one of both");
  refuse_unused(app, o.truth || o.planned, {"--solo"}, "where no interference is asked for",
                "--interference or --plan-interference beside it");
  return o;
}

} // namespace serve_partitions

// SPDX-License-Identifier: Apache-2.0
#include "serve_partitions/options.hpp"

#include "serve_partitions/start_together.hpp"

#include "common/cli/command_line.hpp"
#include "common/cli/files.hpp"
#include "common/cli/option_values.hpp"
#include "common/input/app_catalogue.hpp"
#include "common/input/measured_on.hpp"
#include "common/input/planner_list.hpp"
#include "common/input/profile_catalogue.hpp"
#include "common/input/shared_sm_options.hpp"
#include "common/input/table_options.hpp"

#include <gsched/io/latency_csv.hpp>
#include <gsched/io/rate_curve_csv.hpp>
#include <gsched/io/solo_csv.hpp>
#include <gsched/partition/contention_interference.hpp>
#include <gsched/serving/graph_batches.hpp>
#include <gsched/workload/app_demands.hpp>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <utility>

namespace serve_partitions {

namespace {

using namespace gsched;
using namespace common;

constexpr const char* explanation_and_examples =
    R"(
Requests arrive at random (Poisson) at the given rates. A planner decides which partitions of which
GPUs serve which models in what batches, and gives idle SMs to partitions that gain by them. A
frontend queues requests for their partition; it starts a batch when the partition is idle, and
drops requests that cannot be in time any more. At the end of each period it plans again for the
measured rates and batch times, and switches to the new plan while batches of the old one end.
Simulated GPUs take the time of the table for each batch. With --device cuda, stand-in kernels that
take that time run on partitions of real GPUs, as one graph for each batch; plans and their
partitions are made while the plan before serves.

A violation is a request that was late or dropped.

Plans are for more than the measured rates: for --headroom times as much, for rates that rise, and
for --clusters standard deviations of the arrivals within an SLO, for Poisson arrivals cluster.
Where there is no room for that, the plan is for as much as there is room for, and the report says
so. With the defaults at most 1% of the requests are late or dropped, also where rates are up to 20%
off and batches slow each other as on an H200; docs/research/partitions.md has the measurements.

Where batches take longer than table and interference say, times are corrected, model by model, and
the next plan is for those times. --true-slowdown tries that.

An app is a graph of models, and on time when all of its answers are. Its SLO is the longest of its
models', unless --slo gives one, and is divided over the stages of each path. Apps game and traffic
ship.

Examples
  serve_partitions --rates lenet=4000,resnet50=800,vgg16=300 --gpus 2
      a minute of requests, on two simulated GPUs
  serve_partitions --rates resnet50=1000,vgg16=500 --rate-error 0.2
      rates are up to 20% off, anew each period
  serve_partitions --rates resnet50=1000,vgg16=500 --plan-interference none
      with a planner that does not predict interference
  serve_partitions --rates resnet50=1000,vgg16=500 --true-slowdown 1.6
      batches take 1.6 times what the plans assume, until these learn it
  serve_partitions --app game=300,traffic=200 --seconds 3600
      an hour
  serve_partitions --rate-trace rates.csv --period 5 --plot waves.svg
      rates that change over time, and a picture of rates and plans
  serve_partitions --device cuda --rates resnet50=300,vgg16=100 --seconds 10
      on a real GPU

Exit code: 0, whatever was late; 1 for a failure while running; 2 for a usage or input error,
reported in one line.)";

/// The options as typed.
struct raw_options : partition_texts {
  std::string rate_trace,
      rate_error = "0", batches, added, planner = "best", interference, plan_interference = "same",
      seconds = "60", period = "20", headroom = "1.2", clusters = "1.25", tolerance = "0.1",
      fall = "0.3", start = "at_once", stalls = "0", prepare = "0", switch_us = "100", seed = "1",
      allowed = "0.01", true_slowdown = "1", true_solo, shared_error = "1", only, start_with,
      learned, batch_log;
  bool learns = false, once = false, max_rates = false, fixed_times = false, leave_idle = false,
       share_sms = false, data = false;
  std::vector<std::string> profiles;
  device_option device{{.preset = false}};
  output_options output;
};

void declare(command_line& line, raw_options& raw) {
  declare_demands(line, raw);
  line.option("--rate-trace", raw.rate_trace, "FILE",
              "Rates that change, of models and apps, as CSV:\ntime_s,model,rate");
  line.flag("--max-rates", raw.max_rates,
            "Rates are only proportions: serve the largest multiple\nthat has a plan");
  line.option("--rate-error", raw.rate_error, "E",
              "Actual rates are up to that part off, drawn each period;\nfixed:E for always that "
              "part");
  line.option("--seconds", raw.seconds, "S", "Time for which requests arrive");
  line.option("--seed", raw.seed, "N", "Of all random numbers");
  line.option(
      "--only", raw.only, "NAME",
      "Serve one of the models or apps of --rates and --app: its\nrequests arrive as beside "
      "the others");
  line.option("--start-with", raw.start_with, "DIR",
              "Start together with other processes: make DIR/ready.NAME\nwhen set up, and start at "
              "the time in DIR/go, in ns of the\nmonotonic clock");
  declare_gpus(line, raw, "GPUs of one kind; default: 4, or 1 real one");
  raw.device.declare(line);
  line.option("--batches", raw.batches, "B,...",
              "Sizes of batches with a graph: others run as the next\nlarger one; default: all, or "
              "powers of 2 on real GPUs");
  line.option("--added-us", raw.added, "US",
              "Time added to each batch, for launch and notification;\ndefault: 0, or 30 on real "
              "GPUs");
  line.flag("--data", raw.data,
            "Requests carry inputs and outputs, which are copied from and\nto pinned memory; of "
            "captured graphs on real GPUs");
  line.option(
      "--interference", raw.interference, "F",
      "How simulated batches slow each other: none, h200 or a\nfile; default: h200. Real GPUs "
      "slow them by themselves");
  declare_solo(line, raw);
  line.option("--true-slowdown", raw.true_slowdown, "X",
              "Batches take X times what table and interference say, and\nplans do not know it; or "
              "MODEL=X,... for some models. On real\nGPUs stand-ins take X times the table's time");
  line.option("--true-solo", raw.true_solo, "FILE",
              "Metrics that simulated batches slow each other by, where\nplans have others: with "
              "other factors, say; default: --solo's");
  line.option("--shared-error", raw.shared_error, "X",
              "Simulated batches on shared SMs are slowed X times as much\nas --interference says");
  line.group("Plans");
  line.option(
      "--planner", raw.planner, "P",
      "One of those that plan --help explains; or no partitions:\nwhole, one batch at a time; "
      "streams, one on all SMs for each\nmodel; on real GPUs also priorities, by SLO");
  line.option("--plan-interference", raw.plan_interference, "F",
              "The interference that planners predict: same, none, h200\nor a file");
  line.flag("--share-sms", raw.share_sms,
            "Where there is no plan otherwise, or a worse one, models may\nrun at the same time on "
            "the same SMs; needs predicted\ninterference");
  declare_profiles(line, raw.profiles);
  line.option("--headroom", raw.headroom, "X",
              "Plans are for that many times the rates, if there is room");
  line.option("--clusters", raw.clusters, "Z",
              "... and for Z standard deviations of the arrivals within\nan SLO");
  line.option("--period", raw.period, "S", "Time between two measurements of the rates");
  line.flag("--once", raw.once, "Plan once, for the rates given");
  line.option("--tolerance", raw.tolerance, "X",
              "A plan is kept while no rate is above its planned one by\nmore than that part ...");
  line.option("--fall", raw.fall, "X",
              "... nor below it by more than that part; a rate that falls\nless may rise again");
  line.flag(
      "--learn-interference", raw.learns,
      "Learn how sensitive each model is to its neighbours, and how\nmuch it presses on them, "
      "from their batches, and plan with it");
  line.option("--learned", raw.learned, "FILE",
              "... and write --solo's metrics with that, for later runs");
  line.option(
      "--batch-log", raw.batch_log, "FILE",
      "Write a row of each batch to a CSV file: when and where it\nran, how long it was planned "
      "to take, and what the host added");
  line.flag("--fixed-times", raw.fixed_times, "Measured batch times do not correct the table");
  line.option("--allowed", raw.allowed, "X",
              "A model of which more than that part was late or dropped,\nthough rates and times "
              "are as planned, gets more room");
  line.flag(
      "--leave-idle", raw.leave_idle,
      "SMs and GPUs that a plan does not need stay idle: latencies\nare higher, within the SLOs");
  line.option("--prepare", raw.prepare, "S",
              "Simulated: time to make the partitions of a plan, in the\nbackground");
  line.option("--switch-us", raw.switch_us, "US", "Time until a new partition begins to serve");
  line.option(
      "--start", raw.start, "WHEN",
      "Start of a batch: at_once where a partition is idle, or\ndue: full, at its time in the "
      "cycle, or late otherwise");
  line.option("--stalls", raw.stalls, "MS",
              "Record batches that take longer than expected by more than\nthat: where the time "
              "went; 0: none");
  raw.output.declare(line,
                     {.plot = "Rates, violations and plans over time: .svg, .png or .pdf\n(needs "
                              "gnuplot)"});
}

/// The apps, their rates and their SLOs.
void read_rates(options& o, const raw_options& raw, gsched::sm_count all) {
  const double scale = to_number("--rate-scale", raw.rate_scale, {0, 1e9, true, "times"});
  std::map<std::string, rate_curve> trace;
  if (!raw.rate_trace.empty())
    trace = load_rate_curves(to_file("--rate-trace", raw.rate_trace, "a CSV file"));
  app_catalogue known(*o.table);
  std::vector<std::pair<std::size_t, rate_curve>> offered;
  for (const app_catalogue::requested_app& a : known.read(raw.rates, raw.apps)) {
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
  known.set_slos(raw.slo, raw.slo_factor, all, asked_for);
  o.uses_slo_factor = known.uses_slo_factor();
  const served_by by = has_plans(raw.planner) ? served_by::plan : served_by::whole_gpu;
  std::vector<app> apps;
  for (auto& [which, curve] : offered) {
    for (rate_step& s : curve) s.rate *= scale;
    apps.push_back(known[which]);
    check(apps.back(), *o.table, known.slos(), by);
    o.apps.push_back({apps.back(), std::move(curve), {}, 0});
  }
  o.slos = model_slos(apps, known.slos());
}

void read_error(options& o, const raw_options& raw) {
  std::string part = raw.rate_error;
  o.error.is_fixed = part.rfind("fixed:", 0) == 0;
  if (o.error.is_fixed) part.erase(0, 6);
  o.error.part = to_number("--rate-error", part,
                           o.error.is_fixed ? number_range{-0.99, 100, false, "of the rate"}
                                            : number_range{0, 0.99, false, "of the rate"});
  o.error.every = o.service.period;
  for (std::size_t i = 0; i < o.apps.size(); ++i) {
    offered_app& a = o.apps[i];
    a.seed = o.seed * 1000003 + 2 * i;
    a.actual = with_error(a.expected, o.error, time_point{o.service.length}, a.seed + 1);
  }
}

void read_service(options& o, const raw_options& raw) {
  const auto seconds = [](const char* option, const std::string& text, double least) {
    return gsched::from_us(1e6 * to_number(option, text, {least, 1e6, least == 0, "seconds"}));
  };
  plan_service_options& s = o.service;
  s.length = seconds("--seconds", raw.seconds, 0);
  s.period = seconds("--period", raw.period, 1e-3);
  const bool is_whole = !has_plans(raw.planner);
  s.replans = !raw.once && !is_whole; // its one plan holds for any rates
  o.prepare =
      gsched::from_us(1e6 * to_number("--prepare", raw.prepare, {0, 1e6, false, "seconds"}));
  s.switch_cost = common::to_us("--switch-us", raw.switch_us, 1e9);
  s.replanning.headroom = to_number("--headroom", raw.headroom, {0, 1000, true, "times"});
  s.replanning.clusters = to_number("--clusters", raw.clusters, {0, 1000, false, "deviations"});
  if (is_whole) { // which provides for no rates
    s.replanning.headroom = 1;
    s.replanning.clusters = 0;
  }
  s.replanning.tolerance = to_number("--tolerance", raw.tolerance, {0, 1000, false, "of the rate"});
  s.replanning.fall = to_number("--fall", raw.fall, {0, 1, false, "of the rate"});
  s.stall =
      gsched::from_us(1e3 * to_number("--stalls", raw.stalls, {0, 1e6, false, "milliseconds"}));
  s.fills = !raw.leave_idle && !is_whole;
  s.corrections.learns = !raw.fixed_times;
  s.margins.allowed = to_number("--allowed", raw.allowed, {0, 1, false, "of the requests"});
  s.frontend.start = to_choice<gsched::batch_start>(
      "--start", raw.start,
      {{"due", gsched::batch_start::when_due}, {"at_once", gsched::batch_start::at_once}});
}

void read_true_slowdown(options& o, const std::string& text) {
  constexpr number_range range{0.01, 100, false, "times"};
  o.true_slowdown.assign(o.table->size(), 1.0);
  std::set<std::size_t> named;
  for (const std::string& item : to_list("--true-slowdown", text)) {
    const std::size_t equals = item.find('=');
    if (equals == std::string::npos && item == text) {
      o.true_slowdown.assign(o.table->size(), to_number("--true-slowdown", item, range));
      continue;
    }
    const auto model = o.table->find(item.substr(0, equals));
    if (equals == std::string::npos || !model)
      refuse("--true-slowdown", in_quotes(item), "a number, or MODEL=X with a model of the table",
             errc::unknown_name);
    if (!named.insert(*model).second)
      refuse("--true-slowdown", o.table->name(*model) + " twice", "each model once");
    o.true_slowdown[*model] = to_number("--true-slowdown", item.substr(equals + 1), range);
  }
}

/// The device, and the sizes of batches.
void read_device(options& o, const raw_options& raw) {
  raw.device.read(o.device);
  if (o.device.gpu) {
    // Partitions must not wait for each other in one queue; a user's own number stays.
    if (std::getenv("CUDA_DEVICE_MAX_CONNECTIONS") == nullptr) o.device.queues = 32;
    if (!raw.interference.empty() && raw.interference != "none")
      refuse("--interference", in_quotes(raw.interference) + " with --device " + o.device.device,
             "none: a real GPU slows batches by itself; --plan-interference sets the prediction");
    if (raw.prepare != "0")
      refuse("--prepare", in_quotes(raw.prepare) + " with --device " + o.device.device,
             "0: the time to make partitions is measured");
  }
  const bool is_real = o.device.gpu.has_value();
  if (raw.planner == priorities && !is_real)
    refuse("--planner", in_quotes(raw.planner) + " on simulated GPUs", "--device cuda");
  gsched::gpu_shape shape = to_shape(raw);
  if (is_real) shape.last_alone = false; // graphs may have kernels in clusters
  o.gpus.assign(to_count("--gpus", raw.gpus.empty() ? is_real ? "1" : "4" : raw.gpus, 0, 10000),
                shape);
  const duration added = o.added =
      common::to_us("--added-us", raw.added.empty() ? is_real ? "30" : "0" : raw.added, 1e9);
  const bool all = raw.batches == "all" || (raw.batches.empty() && !is_real);
  if (all && added == duration::zero()) return;
  std::uint32_t most = 32;
  for (std::size_t m = 0; all && m < o.table->size(); ++m)
    most = m == 0 ? o.table->batches(m).back() : std::min(most, o.table->batches(m).back());
  if (all || raw.batches.empty()) {
    for (std::uint32_t b = 1; b <= most; b = all ? b + 1 : 2 * b) o.batches.push_back(b);
  } else {
    o.batches = to_counts("--batches", raw.batches, 1, 100000);
  }
  o.table = gsched::with_graph_batches(*o.table, o.batches, added);
}

/// Leaves out all but the app of --only, whose random numbers stay its own.
void keep_only(options& o, const std::string& name) {
  o.only = name;
  if (name.empty()) return;
  std::erase_if(o.apps, [&](const offered_app& a) { return a.definition.name != name; });
  if (o.apps.empty())
    refuse("--only", in_quotes(name) + " has no rate", "one that --rates or --app names",
           errc::unknown_name);
}

options read(const raw_options& raw) {
  options o;
  o.table_name = raw.table;
  o.table = gsched::load_latency_table(to_file("--table", raw.table, "a CSV file"));
  o.as_measured = o.table;
  const gsched::sm_count all = to_shape(raw).sms;
  o.assumed = assumed_shape(raw, has_plans(raw.planner));
  o.planner = raw.planner;
  o.max_rates = raw.max_rates;
  if (has_plans(raw.planner) && !is_planner(raw.planner))
    refuse("--planner", "unknown planner " + in_quotes(raw.planner),
           "one of " + all_planners() + ", or whole, streams or priorities", errc::unknown_name);
  o.seed = to_count("--seed", raw.seed, 0, ~std::uint64_t{0} / 1000003 - 1);
  read_service(o, raw);
  read_rates(o, raw, all);
  read_device(o, raw);
  o.carries_data = raw.data;
  if (raw.data && !o.device.gpu)
    refuse("--data", "simulated GPUs copy none", "--device cuda, with captured graphs");
  read_true_slowdown(o, raw.true_slowdown);
  read_error(o, raw);
  keep_only(o, raw.only);
  if (!raw.start_with.empty()) {
    std::error_code ignored;
    if (!std::filesystem::is_directory(raw.start_with, ignored))
      refuse("--start-with", in_quotes(raw.start_with) + " is not there", "a folder", errc::io);
    o.service.before_start = [folder = raw.start_with, name = raw.only.empty() ? "all" : raw.only] {
      start_together(folder, name);
    };
  }
  std::vector<model_demand> demands;
  for (const offered_app& a : o.apps)
    for (const app_stage& s : a.definition.stages) demands.push_back({s.model, 1, o.slos[s.model]});
  gsched::check(demands, *o.table, has_plans(raw.planner) ? served_by::plan : served_by::whole_gpu);
  check_sizes(demands, *o.table, all);
  const bool simulates_streams = has_streams(raw.planner) && !o.device.gpu;
  const std::string truth = !raw.interference.empty() ? raw.interference
                            : o.device.gpu || (!has_plans(raw.planner) && !simulates_streams)
                                ? "none" // of partitions beside each other
                                : "h200";
  o.truth = to_law("--interference", truth);
  o.planned = simulates_streams ? std::nullopt
              : raw.plan_interference == "same"
                  ? o.truth
                  : to_law("--plan-interference", raw.plan_interference);
  if (o.assumed.empty()) o.measured.push_back({"--table", raw.table});
  if (o.truth || o.planned) {
    o.solo_file = to_file("--solo", raw.solo, "a CSV file");
    o.solo = gsched::load_solo_table(o.solo_file);
    o.true_solo =
        raw.true_solo.empty()
            ? o.solo
            : gsched::load_solo_table(to_file("--true-solo", raw.true_solo, "a CSV file"));
    o.measured.push_back({"--solo", raw.solo});
    if (o.truth) o.measured.push_back({"--interference", to_law_file("--interference", truth)});
    if (o.planned && raw.plan_interference != "same")
      o.measured.push_back(
          {"--plan-interference", to_law_file("--plan-interference", raw.plan_interference)});
    if ((raw.share_sms || simulates_streams) && !raw.profiles.empty())
      for (measured_file& f : profile_catalogue(raw.profiles).one_of_each_folder())
        o.measured.push_back(std::move(f));
    check_machines("serve_partitions", o.measured);
    for (const model_demand& d : demands)
      if (const std::string& name = o.table->name(d.model); !o.solo.has(name))
        refuse("--interference", name + ": no solo metrics", "rows of it in --solo, or none",
               errc::unknown_name);
      else if (!o.true_solo.has(name))
        refuse("--true-solo", name + ": no solo metrics", "rows of it", errc::unknown_name);
  }
  if (raw.learns && !o.planned)
    refuse("--learn-interference", "without predicted interference",
           "--plan-interference, which learned factors correct");
  o.learns = raw.learns;
  o.learned = raw.learned;
  o.batch_log = raw.batch_log;
  if (simulates_streams && o.truth)
    o.shared_truth = load_shared_sms(raw.profiles, raw.table, *o.table, o.solo, demands, *o.truth);
  if (raw.share_sms) {
    if (!o.planned)
      refuse("--share-sms", "without predicted interference",
             "--plan-interference, as of none nothing is known of shared SMs");
    if (is_whole(o.planner))
      refuse("--share-sms", in_quotes(o.planner) + " uses whole GPUs", "another planner");
    o.shared_planned =
        load_shared_sms(raw.profiles, raw.table, *o.table, o.solo, demands, *o.planned);
    if (o.truth)
      o.shared_truth =
          load_shared_sms(raw.profiles, raw.table, *o.table, o.solo, demands, *o.truth);
    else if (!o.device.gpu)
      refuse("--share-sms", "beside --interference none", "a law that simulated batches follow");
  }
  o.shared_error = to_number("--shared-error", raw.shared_error, {0.5, 10, true, "times"});
  raw.output.read(o, {{"--learned", o.learned}, {"--batch-log", o.batch_log}});
  return o;
}

} // namespace

std::optional<options> parse_options(int argc, char** argv) {
  raw_options raw;
  command_line line("serve_partitions",
                    "Serves models on partitions of GPUs, by plans that follow the request rates.",
                    explanation_and_examples);
  declare(line, raw);
  if (!line.parse(argc, argv)) return std::nullopt;
  line.refuse_unused(!raw.max_rates, {"--rate-scale"}, "beside --max-rates, which finds the scale",
                     "one of both");
  line.refuse_unused(!raw.max_rates, {"--only"}, "beside --max-rates, which is for all models",
                     "one of both");
  line.refuse_unused(
      !raw.once, {"--tolerance", "--fall", "--fixed-times", "--allowed", "--learn-interference"},
      "beside --once, which plans for good", "one of both");
  line.refuse_unused(!raw.once, {"--prepare", "--switch-us"},
                     "beside --once, where no plan follows the first", "one of both");
  line.refuse_unused(raw.share_sms || has_streams(raw.planner), {"--profiles", "--shared-error"},
                     "without --share-sms", "it beside them");
  line.refuse_unused(
      has_plans(raw.planner),
      {"--headroom", "--clusters", "--tolerance", "--fall", "--fixed-times", "--allowed",
       "--leave-idle", "--share-sms", "--prepare", "--switch-us", "--group", "--interference",
       "--plan-interference", "--solo", "--true-solo", "--learn-interference"},
      "beside --planner " + raw.planner + ", which makes no partitions", "a planner");
  line.refuse_unused(raw.learns, {"--learned"}, "without --learn-interference", "it beside that");
  options o = read(raw);
  check_slo_factor(line, o.uses_slo_factor);
  line.refuse_unused(o.truth.has_value(), {"--true-solo"}, "without --interference",
                     "a law that simulated batches follow");
  line.refuse_unused(o.truth || o.planned, {"--solo"}, "where no interference is asked for",
                     "--interference or --plan-interference beside it");
  return o;
}

} // namespace serve_partitions

// SPDX-License-Identifier: Apache-2.0
#include "serve_mix/options.hpp"

#include "common/cli/command_line.hpp"
#include "common/cli/option_values.hpp"
#include "common/input/profile_catalogue.hpp"
#include "common/input/table_options.hpp"
#include "common/run/policy_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <system_error>
#include <utility>

namespace fs = std::filesystem;

namespace serve_mix {

namespace {

constexpr const char* units_and_examples =
    R"(
Without options many short requests (ResNet-18) share the GPU with a few that take seventeen times
as long (VGG-16, batches of 32). In the table of the short model, its requests wait behind the long
ones under direct and fifo; srpt serves them first. With all policies, a last table sets each beside
direct, the best that a GPU does without a scheduler.

Units: times of requests are in milliseconds (MS), of the device in microseconds (US).
On a simulated GPU the same arguments and seed give the same results, byte for byte, except for
wall_s. On a GPU (--device cuda), models run as kernels of the same size and time that compute
nothing, requests come in real time, and the GPU counts as busy while a segment is in flight.

Examples
  serve_mix
      two models, eight clients, every policy
  serve_mix --seed 2 --requests 20000
      the same with other arrivals, and ten times as many
  serve_mix --load 0.3
      an idle GPU: nothing waits, and all policies are equal
  serve_mix --arrivals lognormal:2 --load 1.2 --policy srpt,boost,direct --plot latency.svg
      bursts, on a GPU that is nearly full
  serve_mix --arrivals closed:16 --policy direct,srpt --trace timeline.json
      sixteen requests always in flight; open the trace in ui.perfetto.dev
  serve_mix --policy edf,srpt --slo 2x:5x
      deadlines that differ by request; edf refuses what would be late
  serve_mix --policy srpt --slow-down-limit 1.2
      what it costs and gains that no model slows another by more than 20%
  serve_mix --policy srpt --slow-down-limit 1.5 --slow-downs predicted,measured
      the same, and whether the predictions decide as measurements on the device would
  serve_mix --profiles mine.json --policy single --load 0.5 --requests 100
      a profile of your own, alone
  serve_mix --device cuda --policy srpt+deficit,direct
      on the machine's first GPU

Exit code: 0; 1 for a failure while running; 2 for a usage or input error, reported in one line.)";

/// The options as typed.
struct raw_options {
  std::string mix, clients = "8", load = "0.9", rate, arrivals = "poisson",
                   requests = std::to_string(default_requests), slo = "10", seed = "1", lanes = "8",
                   spare_lanes, slow_down_limit, slow_downs = "predicted", most_wait = "1000",
                   delay = "0", submission = "graph", weights = "1", evict = "no";
  std::vector<std::string> profiles;
  policy_options policy;
  segment_options segments{"100", "800"};
  device_option device;
  threads_option threads;
  output_options output;
};

void declare(command_line& line, raw_options& raw) {
  line.group("Workload");
  line.option("--mix", raw.mix, "NAME=W,...",
              fmt::format("Models by file stem, and how often each is asked for;\nweights default "
                          "to 1. Default: {},\nor all files if --profiles names files",
                          default_mix)
                  .c_str());
  declare_profiles(line, raw.profiles);
  line.option("--clients", raw.clients, "N", "Tenants, among whom fair policies divide the device");
  line.option("--weights", raw.weights, "W,...",
              "Shares of the clients under deficit policies, in order;\nthe last one also of those "
              "that follow");
  line.option("--requests", raw.requests, "N",
              "Requests for each policy; 500 on a GPU if not given");
  line.group("Arrivals");
  line.option("--arrivals", raw.arrivals, "LAW",
              "poisson, lognormal:SIGMA (burstier as sigma rises),\n"
              "closed:N (N requests in flight at any time) or trace:FILE");
  line.option("--load", raw.load, "X",
              "Requests a second times the mean time of a request\nalone on the device. Requests "
              "overlap, so a GPU takes\nmore than 1: about 1.3 of the default mix");
  line.option("--rate", raw.rate, "R", "Requests a second, in place of --load");
  line.option("--slo", raw.slo, "MS|Nx",
              "Deadline of a request from its arrival; 2x: twice what its\nmodel takes alone on "
              "the device; 2x:5x: drawn for each\nrequest from 2 to 5 times that; none");
  line.option("--seed", raw.seed, "N", "Of all random numbers");
  line.group("Scheduling");
  raw.policy.declare(line);
  raw.segments.declare(line);
  line.option("--lanes", raw.lanes, "N", "Hardware streams that scheduled requests share");
  line.option("--spare-lanes", raw.spare_lanes, "N",
              "More streams, used while running work leaves a part of\nthe GPU empty; default: 120 "
              "with 8 lanes, otherwise none");
  line.option("--evict", raw.evict, "yes|no",
              "Take back submitted work that has not started when the\npolicy prefers a new "
              "request");
  line.option("--slow-down-limit", raw.slow_down_limit, "X",
              "Serve under each policy a second time, and keep apart\nmodels of which one takes "
              "more than X times as long beside\nthe other: 1.2 allows 20%");
  line.option(
      "--slow-downs", raw.slow_downs, "FROM,...",
      "predicted (by the law of contention that ships, from the\ncounters of kernels in the "
      "profiles), LAW.json (by another\none, of interference fit), measured (on the device, "
      "before\nthe runs) or PAIRS.csv (as corun_pairs.csv of measure). The\nfirst one "
      "decides; the others are compared with it");
  line.option("--most-wait", raw.most_wait, "US",
              "Time after which the models that keep another one waiting\nmake room");
  line.option("--submission", raw.submission, "HOW",
              "graph (one launch a segment) or launches (one a kernel)");
  line.option("--decision-delay", raw.delay, "US", "Host time of each decision");
  line.group("Device");
  raw.device.declare(line, true);
  raw.threads.declare(line, "Threads on which policies are simulated in parallel, with\nthe same "
                            "results; default: all of this machine, 1 for a\nGPU or with --trace");
  raw.output.declare(line, {.trace = "A timeline of each policy's run, for ui.perfetto.dev",
                            .plot = "Latency by policy and model: .svg, .png or .pdf\n(needs "
                                    "gnuplot)"});
}

std::vector<mix_entry> to_mix(const std::string& mix, const std::vector<std::string>& profiles) {
  const profile_catalogue known(profiles);
  std::vector<mix_entry> entries;
  if (mix.empty() && known.only_files()) {
    for (const auto& [name, file] : known.files()) entries.push_back({name, 1.0, file});
    return entries;
  }
  for (const std::string& item : to_list("--mix", mix.empty() ? default_mix : mix)) {
    const std::size_t equals = item.rfind('=');
    mix_entry entry;
    entry.name = item.substr(0, equals);
    if (equals != std::string::npos)
      entry.weight =
          to_number("--mix", std::string_view(item).substr(equals + 1), {0, 1e6, true, "a weight"});
    entry.profile = known.find("--mix", entry.name);
    if (std::any_of(entries.begin(), entries.end(),
                    [&](const mix_entry& e) { return e.name == entry.name; }))
      refuse("--mix", in_quotes(entry.name) + " is named twice", "each model once");
    entries.push_back(std::move(entry));
  }
  return entries;
}

std::vector<double> to_weights(const std::string& text, std::uint32_t clients) {
  std::vector<double> weights;
  for (std::size_t from = 0; from <= text.size();) { // clients may have equal ones
    const std::size_t comma = std::min(text.find(',', from), text.size());
    weights.push_back(to_number("--weights", std::string_view(text).substr(from, comma - from),
                                {0, 1e6, true, "a weight"}));
    from = comma + 1;
  }
  if (weights.size() > clients)
    refuse("--weights", fmt::format("{} weights for {} clients", weights.size(), clients),
           "at most one for each");
  return weights;
}

std::optional<slo_rule> to_slo(const std::string& text) {
  if (text == "none") return std::nullopt;
  slo_rule slo;
  slo.text = text;
  if (text.find('x') == text.npos && text.find(':') == text.npos) {
    const number_range range{0, 1e6, true, "none, 2x, 2x:5x or milliseconds"};
    slo.time = gsched::from_us(1e3 * to_number("--slo", text, range));
    return slo;
  }
  slo.of_solo = true;
  const auto multiple = [&](std::string_view part) {
    if (!part.ends_with('x')) refuse("--slo", in_quotes(text), "none, milliseconds, 2x or 2x:5x");
    return to_number("--slo", part.substr(0, part.size() - 1),
                     {0, 1e6, true, "2x or 2x:5x, times the model's time alone"});
  };
  const std::string_view all = text;
  const std::size_t colon = std::min(all.find(':'), all.size());
  slo.least = slo.most = multiple(all.substr(0, colon));
  if (colon < all.size()) slo.most = multiple(all.substr(colon + 1));
  if (slo.least > slo.most)
    refuse("--slo", in_quotes(text) + " falls", "the smaller multiple first");
  return slo;
}

arrival_options to_arrivals(const std::string& text) {
  constexpr std::string_view option = "--arrivals";
  const std::size_t colon = text.find(':');
  const std::string law = text.substr(0, colon);
  const std::string value = colon == std::string::npos ? "" : text.substr(colon + 1);
  arrival_options a;
  a.text = text;
  if (text == "poisson") return a;
  if (law == "lognormal") {
    a.law = arrival_law::lognormal;
    a.sigma = to_number(option, value, {0, 10, true, "lognormal:SIGMA, a sigma"});
  } else if (law == "closed") {
    a.law = arrival_law::closed;
    a.in_flight = static_cast<std::uint32_t>(to_count(option, value, 1, 1'000'000));
  } else if (law == "trace") {
    a.law = arrival_law::trace;
    a.file = value;
    std::error_code ignored;
    if (fs::is_directory(a.file, ignored) || !std::ifstream(a.file))
      refuse(option, "trace file " + in_quotes(value) + " cannot be opened", "a readable file",
             gsched::errc::io);
    record_input(option, a.file);
  } else {
    refuse(option, "unknown law " + in_quotes(text),
           "poisson, lognormal:SIGMA, closed:N or trace:FILE", gsched::errc::unknown_name);
  }
  return a;
}

std::vector<slowdown_source> to_sources(const std::string& text) {
  constexpr const char* option = "--slow-downs";
  std::vector<slowdown_source> sources;
  for (const std::string& item : to_list(option, text)) {
    if (item == "measured")
      sources.push_back({.text = item, .how = slowdown_source::kind::measured});
    else
      sources.push_back(
          to_slowdown_source(option, item, "predicted, measured, LAW.json or PAIRS.csv"));
  }
  return sources;
}

void read_rate(options& o, const raw_options& raw, const command_line& line) {
  const bool load_given = line.is_given("--load"), rate_given = line.is_given("--rate");
  if (load_given && rate_given) refuse("--rate", "given beside --load", "one of the two");
  if (!o.arrivals.open_loop()) {
    if (load_given || rate_given)
      refuse(load_given ? "--load" : "--rate", "given, but --arrivals sets the rate itself",
             "it with poisson or lognormal arrivals only");
  } else if (rate_given) {
    o.rate = to_number("--rate", raw.rate, {0, 1e9, true, "requests per second"});
  } else {
    o.load = to_number("--load", raw.load, {0, 1000, true});
  }
}

options read(const raw_options& raw, const command_line& line) {
  constexpr std::uint64_t million = 1'000'000;
  options o;
  raw.device.read(o);
  o.mix = to_mix(raw.mix, raw.profiles);
  o.clients = to_small_count("--clients", raw.clients, 1, million);
  o.weights = to_weights(raw.weights, o.clients);
  o.evict = to_choice<bool>("--evict", raw.evict, {{"yes", true}, {"no", false}});
  o.requests = to_count("--requests", raw.requests, 1, 100 * million);
  if (o.gpu && !line.is_given("--requests")) o.requests = default_gpu_requests;
  o.arrivals = to_arrivals(raw.arrivals);
  read_rate(o, raw, line);
  o.slo = to_slo(raw.slo);
  o.seed = to_count("--seed", raw.seed, 0, std::numeric_limits<std::uint64_t>::max());
  policy_choice policies = raw.policy.read(line);
  o.policies = std::move(policies.names);
  o.parameters = policies.parameters;
  o.all_policies = policies.all;
  static_cast<segment_settings&>(o) = raw.segments.read(line);
  o.lanes = to_small_count("--lanes", raw.lanes, 1, 1024);
  if (!raw.spare_lanes.empty())
    o.spare_lanes = to_small_count("--spare-lanes", raw.spare_lanes, 0, 1024);
  if (!raw.slow_down_limit.empty())
    o.slow_down_limit =
        to_number("--slow-down-limit", raw.slow_down_limit, {1, 1000, false, "a ratio"});
  if (o.slow_down_limit) o.slowdowns = to_sources(raw.slow_downs);
  o.most_wait = to_us("--most-wait", raw.most_wait, 1e9);
  o.decision_delay = to_us("--decision-delay", raw.delay, 1e6);
  o.submission = to_choice<gsched::submission>(
      "--submission", raw.submission,
      {{"graph", gsched::submission::graph}, {"launches", gsched::submission::launches}});
  raw.output.read(o);
  o.threads = raw.threads.read(o, o);
  return o;
}

/// Refuses options that have no effect under the policies asked for.
void check_used(const command_line& line, const options& o) {
  using description = gsched::policy_description;
  const bool schedules = !std::all_of(o.policies.begin(), o.policies.end(),
                                      [](const std::string& p) { return is_unscheduled(p); });
  line.refuse_unused(schedules,
                     {"--quantum", "--most-quantum", "--overshoot", "--lanes", "--spare-lanes"},
                     "with direct and single alone, which do not schedule", "another --policy");
  line.refuse_unused(schedules, {"--slow-down-limit"},
                     "with direct and single alone, which do not schedule", "another --policy");
  line.refuse_unused(o.slow_down_limit.has_value(), {"--slow-downs", "--most-wait"},
                     "without a limit", "--slow-down-limit");
  line.refuse_unused(any_policy(o.policies, &description::uses_weights), {"--weights"},
                     "without a policy that shares by weight",
                     policies_with(&description::uses_weights) + " in --policy");
  line.refuse_unused(any_policy(o.policies, &description::preempts), {"--evict"},
                     "without a policy that preempts",
                     policies_with(&description::preempts) + " in --policy");
  line.refuse_unused(o.draws(), {"--seed"}, "beside --arrivals trace:FILE, where nothing is random",
                     "arrivals that are drawn");
}

} // namespace

std::optional<options> parse_options(int argc, const char* const* argv) {
  raw_options raw;
  command_line line("serve_mix",
                    "Serves a mix of models on a GPU under a list of scheduling policies, and "
                    "compares\nlatency, throughput and fairness.",
                    "Policies\n" + policy_help() + units_and_examples);
  declare(line, raw);
  if (!line.parse(argc, argv)) return std::nullopt;
  options o = read(raw, line);
  check_used(line, o);
  return o;
}

} // namespace serve_mix

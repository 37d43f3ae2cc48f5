// SPDX-License-Identifier: Apache-2.0
#include "serve_mix/options.hpp"

#include "serve_mix/plot.hpp"
#include "serve_mix/values.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <limits>

namespace serve_mix {

namespace {

constexpr const char* teaching =
    R"(Units: times of requests in milliseconds (MS), of the device in microseconds (US).
The same arguments and seed give the same results, byte for byte; wall_s is the one exception.
direct and single stand for no scheduling at all: every request goes to the hardware at once,
to a stream of its own or to one stream for all.

Examples
  serve_mix
      two models, eight clients, 90% load, every policy: a table
  serve_mix --mix resnet18_b1=9,bert_base_b32=1 --policy fifo,srpt,srpt+deficit --load 0.8
      many short requests beside a few long ones
  serve_mix --arrivals lognormal:2 --load 1.1 --requests 20000 --plot latency.svg --json runs.json
      bursty arrivals, more than the device can serve
  serve_mix --arrivals closed:16 --policy direct,srpt --trace timeline.json
      sixteen requests always under way; open the trace in ui.perfetto.dev
  serve_mix --profiles mine.json --policy single --requests 100
      a profile of your own, alone

Exit code: 0; 1 for a failure while running; 2 for a usage or input error, told in one line.)";

/// The command line as words. Words are checked after CLI11 is done, so that all errors read alike.
struct words {
  std::string device = "sim:h200", mix, clients = "8", load = "0.9", rate, arrivals = "poisson",
              requests = "2000", policy = "all", slo = "10", seed = "1", json, trace, plot, queues,
              lanes = "8", quantum = "100", threshold = "1000", delay = "0", submission = "graph";
  std::vector<std::string> profiles;
  bool quiet = false, no_progress = false;
};

void declare(CLI::App& app, words& w) {
  std::string group;
  const auto add = [&](const char* name, std::string& word, const char* type, const char* help) {
    app.add_option(name, word, help)->type_name(type)->group(group)->capture_default_str();
  };
  group = "What is served";
  app.add_option("--profiles", w.profiles,
                 "The models' profiles, as directories and files;\n"
                 "default: those that ship with gsched")
      ->type_name("DIR_OR_FILES")
      ->group(group);
  add("--mix", w.mix, "NAME=W,...",
      "Models by file stem, and how often each is asked for;\nweights default to 1. Default: "
      "resnet18_b1=2,inception_v3_b1=1,\nor all files if --profiles names files");
  add("--clients", w.clients, "N", "Tenants among whom fair policies divide the device");
  add("--requests", w.requests, "N", "Requests in all, for each policy");
  group = "When requests arrive";
  add("--arrivals", w.arrivals, "LAW",
      "poisson, lognormal:SIGMA (burstier as sigma rises),\n"
      "closed:N (N requests under way at any time) or trace:FILE");
  add("--load", w.load, "X",
      "Rate times the mix's mean time alone on the device;\nabove 1 the device saturates");
  add("--rate", w.rate, "R", "Requests per second, in place of --load");
  add("--slo", w.slo, "MS", "Deadline of a request from its arrival; none: no deadline");
  add("--seed", w.seed, "N", "Of all that is random");
  group = "How it is scheduled";
  add("--policy", w.policy, "P,...",
      "all, or some of\nfifo rr sjf srpt edf deficit srpt+deficit direct single");
  add("--quantum", w.quantum, "US", "Device time of a segment, the unit of dispatch");
  add("--lanes", w.lanes, "N", "Hardware streams that scheduled requests share");
  add("--threshold", w.threshold, "US", "Deficit policies: device time that a client may be owed");
  add("--submission", w.submission, "HOW",
      "graph (one launch a segment) or launches (one a kernel)");
  add("--decision-delay", w.delay, "US", "Time that each decision takes the host");
  group = "On what device";
  add("--device", w.device, "NAME", "sim:h200, a simulated NVIDIA H200");
  add("--queues", w.queues, "N", "Hardware queues; default: as many as the device has");
  group = "What comes out";
  add("--json", w.json, "FILE", "All results");
  add("--trace", w.trace, "FILE", "A timeline of the last policy's run, for ui.perfetto.dev");
  add("--plot", w.plot, "FILE", "Latency by policy and model: .svg, .png or .pdf\n(needs gnuplot)");
  app.add_flag("-q,--quiet", w.quiet, "No table")->group(group);
  app.add_flag("--no-progress", w.no_progress, "No progress bar on a terminal")->group(group);
}

gsched::duration to_us(std::string_view option, const std::string& word, double most) {
  return gsched::from_us(to_number(option, word, {0, most, false, "microseconds"}));
}

void read_rate(options& o, const words& w, bool load_given, bool rate_given) {
  if (load_given && rate_given) refuse("--rate", "given beside --load", "one of the two");
  if (!o.arrivals.open_loop()) {
    if (load_given || rate_given)
      refuse(load_given ? "--load" : "--rate", "given, but --arrivals sets the rate itself",
             "it with poisson or lognormal arrivals only");
    o.load.reset();
  } else if (rate_given) {
    o.load.reset();
    o.rate = to_number("--rate", w.rate, {0, 1e9, true, "requests per second"});
  } else {
    o.load = to_number("--load", w.load, {0, 1000, true});
  }
}

void read_outputs(options& o, const words& w) {
  o.json = w.json;
  o.trace = w.trace;
  o.plot = w.plot;
  std::vector<std::pair<const char*, std::filesystem::path>> out;
  for (const auto& [option, path] :
       {std::pair("--json", o.json), {"--trace", o.trace}, {"--plot", o.plot}}) {
    if (path.empty()) continue;
    for (const auto& [other, taken] : out)
      if (taken == path)
        refuse(option, in_quotes(path.string()) + " is also that of " + other, "a file of its own");
    check_writable(option, path);
    out.emplace_back(option, path);
  }
  if (o.plot.empty()) return;
  const auto type = o.plot.extension();
  if (type != ".svg" && type != ".png" && type != ".pdf")
    refuse("--plot", in_quotes(o.plot.string()) + " has an unknown type", ".svg, .png or .pdf");
  if (!gnuplot_found())
    refuse("--plot", "gnuplot is not on the path", "it installed (package gnuplot-nox)");
}

options read(const words& w, bool load_given, bool rate_given) {
  constexpr std::uint64_t million = 1'000'000;
  options o;
  o.device = w.device;
  if (o.device != "sim:h200")
    refuse("--device", "unknown device " + in_quotes(o.device), "sim:h200",
           gsched::errc::unknown_name);
  o.mix = to_mix(w.mix, w.profiles);
  o.clients = static_cast<std::uint32_t>(to_count("--clients", w.clients, 1, million));
  o.requests = to_count("--requests", w.requests, 1, 100 * million);
  o.arrivals = to_arrivals(w.arrivals);
  read_rate(o, w, load_given, rate_given);
  if (w.slo != "none")
    o.slo =
        gsched::from_us(1e3 * to_number("--slo", w.slo, {0, 1e6, true, "none, or milliseconds"}));
  o.seed = to_count("--seed", w.seed, 0, std::numeric_limits<std::uint64_t>::max());
  o.policies = to_policies(w.policy);
  if (!w.queues.empty())
    o.queues = static_cast<std::uint32_t>(to_count("--queues", w.queues, 1, 1024));
  o.lanes = static_cast<std::uint32_t>(to_count("--lanes", w.lanes, 1, 1024));
  o.quantum = gsched::from_us(to_number("--quantum", w.quantum, {0, 1e9, true, "microseconds"}));
  o.threshold = to_us("--threshold", w.threshold, 1e9);
  o.decision_delay = to_us("--decision-delay", w.delay, 1e6);
  if (w.submission != "graph" && w.submission != "launches")
    refuse("--submission", "unknown way " + in_quotes(w.submission), "graph or launches",
           gsched::errc::unknown_name);
  o.submission = w.submission == "graph" ? gsched::submission::graph : gsched::submission::launches;
  read_outputs(o, w);
  o.quiet = w.quiet;
  o.progress = !w.no_progress && !w.quiet && isatty(STDERR_FILENO) == 1;
  return o;
}

} // namespace

const std::vector<std::string>& policy_names() {
  static const std::vector<std::string> names{"fifo",    "rr",           "sjf",    "srpt",  "edf",
                                              "deficit", "srpt+deficit", "direct", "single"};
  return names;
}

std::optional<options> parse_options(int argc, const char* const* argv) {
  CLI::App app{"Serves a mix of models on a GPU under a list of scheduling policies, and compares "
               "what they do to latency, throughput and fairness.",
               "serve_mix"};
  app.get_formatter()->column_width(30);
  app.set_help_flag("-h,--help", "This text");
  app.footer(teaching);
  words w;
  declare(app, w);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help();
    return std::nullopt;
  } catch (const CLI::ParseError& e) {
    const std::string line = in_quotes(e.what());
    refuse("command line", line.substr(1, line.size() - 2), "what serve_mix --help lists");
  }
  for (const auto& [option, word] :
       {std::pair("--json", &w.json), {"--trace", &w.trace}, {"--plot", &w.plot}})
    if (word->empty() && app.count(option) > 0)
      refuse(option, "'' is no path", "a path to write a file to");
  return read(w, app.count("--load") > 0, app.count("--rate") > 0);
}

} // namespace serve_mix

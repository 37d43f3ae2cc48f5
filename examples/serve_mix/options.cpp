// SPDX-License-Identifier: Apache-2.0
#include "serve_mix/options.hpp"

#include "serve_mix/command_line.hpp"
#include "serve_mix/plot.hpp"
#include "serve_mix/values.hpp"

#include <CLI/CLI.hpp>

#include <unistd.h>

#include <iostream>
#include <limits>
#include <system_error>
#include <utility>

namespace serve_mix {

namespace {

gsched::duration to_us(std::string_view option, const std::string& word, double most) {
  return gsched::from_us(to_number(option, word, {0, most, false, "microseconds"}));
}

std::filesystem::path to_file(std::string_view option, const std::string& word,
                              const std::string& expected) {
  std::error_code ignored;
  if (!std::filesystem::exists(word, ignored))
    refuse(option, in_quotes(word) + " does not exist", expected, gsched::errc::io);
  return word;
}

void read_device(options& o, const std::string& word) {
  o.device = word;
  const std::string_view text = word;
  if (text == "cuda")
    o.gpu = 0;
  else if (text.starts_with("cuda:"))
    o.gpu = static_cast<int>(to_count("--device", text.substr(5), 0, 1023));
  else if (text.ends_with(".json"))
    o.preset = to_file("--device", word, "a preset's file");
  else if (text != "sim:h200")
    refuse("--device", "unknown device " + in_quotes(word),
           "sim:h200, cuda, cuda:N or a preset's file (.json)", gsched::errc::unknown_name);
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

options read(const words& w, bool load_given, bool rate_given, bool requests_given) {
  constexpr std::uint64_t million = 1'000'000;
  options o;
  read_device(o, w.device);
  o.mix = to_mix(w.mix, w.profiles);
  o.clients = static_cast<std::uint32_t>(to_count("--clients", w.clients, 1, million));
  o.requests = to_count("--requests", w.requests, 1, 100 * million);
  if (o.gpu && !requests_given) o.requests = default_gpu_requests;
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
  o.most_quantum = to_us("--most-quantum", w.most_quantum, 1e9);
  o.overshoot = to_number("--overshoot", w.overshoot, {0, 1e6});
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
  CLI::App app;
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
  return read(w, app.count("--load") > 0, app.count("--rate") > 0, app.count("--requests") > 0);
}

} // namespace serve_mix

// SPDX-License-Identifier: Apache-2.0
#include "serve_mix/options.hpp"

#include "serve_mix/command_line.hpp"
#include "serve_mix/values.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <limits>
#include <utility>

namespace serve_mix {

namespace {

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

options read(const words& w, bool load_given, bool rate_given, bool requests_given) {
  constexpr std::uint64_t million = 1'000'000;
  options o;
  read_device_words(o, w);
  o.mix = to_mix(w.mix, w.profiles);
  o.clients = static_cast<std::uint32_t>(to_count("--clients", w.clients, 1, million));
  o.weights = to_weights(w.weights, o.clients);
  if (w.evict != "yes" && w.evict != "no")
    refuse("--evict", "unknown answer " + in_quotes(w.evict), "yes or no",
           gsched::errc::unknown_name);
  o.evict = w.evict == "yes";
  o.requests = to_count("--requests", w.requests, 1, 100 * million);
  if (o.gpu && !requests_given) o.requests = default_gpu_requests;
  o.arrivals = to_arrivals(w.arrivals);
  read_rate(o, w, load_given, rate_given);
  o.slo = to_slo(w.slo);
  o.seed = to_count("--seed", w.seed, 0, std::numeric_limits<std::uint64_t>::max());
  o.policies = to_policies(w.policy);
  o.lanes = static_cast<std::uint32_t>(to_count("--lanes", w.lanes, 1, 1024));
  if (!w.spare_lanes.empty())
    o.spare_lanes = static_cast<std::uint32_t>(to_count("--spare-lanes", w.spare_lanes, 0, 1024));
  o.quantum = gsched::from_us(to_number("--quantum", w.quantum, {0, 1e9, true, "microseconds"}));
  o.most_quantum = to_us("--most-quantum", w.most_quantum, 1e9);
  o.overshoot = to_number("--overshoot", w.overshoot, {0, 1e6});
  o.threshold = to_us("--threshold", w.threshold, 1e9);
  o.slice = gsched::from_us(to_number("--slice", w.slice, {0, 1e9, true, "microseconds"}));
  o.decision_delay = to_us("--decision-delay", w.delay, 1e6);
  if (w.submission != "graph" && w.submission != "launches")
    refuse("--submission", "unknown way " + in_quotes(w.submission), "graph or launches",
           gsched::errc::unknown_name);
  o.submission = w.submission == "graph" ? gsched::submission::graph : gsched::submission::launches;
  read_output_words(o, w);
  return o;
}

/// Refuses options that none of the policies asked for uses.
void check_used(const CLI::App& app, const options& o) {
  const auto some = [&](const auto& of) {
    return std::any_of(o.policies.begin(), o.policies.end(), of);
  };
  const auto is_deficit = [](const std::string& p) { return p.find("deficit") != p.npos; };
  refuse_unused(app, some([](const std::string& p) { return p != "direct" && p != "single"; }),
                {"--quantum", "--most-quantum", "--overshoot", "--lanes", "--spare-lanes"},
                "with direct and single alone, which do not schedule", "another --policy");
  refuse_unused(app, some(is_deficit), {"--weights"}, "without a policy that shares by deficit",
                "deficit or srpt+deficit in --policy");
  refuse_unused(app, some([](const std::string& p) { return p == "srpt+deficit"; }),
                {"--threshold"}, "without the policy srpt+deficit", "srpt+deficit in --policy");
  refuse_unused(app, some([](const std::string& p) { return p == "rr"; }), {"--slice"},
                "without the policy rr", "rr in --policy");
  const auto preempts = [&](const std::string& p) {
    return p == "srpt" || p == "edf" || p == "srpt+deficit" || p.starts_with("boost");
  };
  refuse_unused(app, some(preempts), {"--evict"}, "without a policy that preempts",
                "srpt, edf, srpt+deficit or boost in --policy");
}

} // namespace

const std::vector<std::string>& policy_names() {
  static const std::vector<std::string> names{
      "fifo", "rr", "sjf", "srpt", "edf", "deficit", "srpt+deficit", "boost", "direct", "single"};
  return names;
}

std::optional<options> parse_options(int argc, const char* const* argv) {
  CLI::App app;
  words w;
  declare(app, w);
  if (!parse(app, argc, argv)) return std::nullopt;
  options o =
      read(w, app.count("--load") > 0, app.count("--rate") > 0, app.count("--requests") > 0);
  if (!is_given(app, "--most-quantum")) o.most_quantum = std::max(o.most_quantum, o.quantum);
  check_quanta(o.quantum, o.most_quantum);
  o.threads = read_threads(w.threads, is_given(app, "--threads"), o, o);
  check_used(app, o);
  refuse_unused(app, o.draws(), {"--seed"}, "beside --arrivals trace:FILE, where nothing is random",
                "arrivals that are drawn");
  return o;
}

} // namespace serve_mix

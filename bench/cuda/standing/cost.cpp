// SPDX-License-Identifier: Apache-2.0
#include "standing/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>

namespace standing {

using gsched::cuda::check;
using gsched::cuda::driver;

namespace {

constexpr unsigned kernels_of_chain = 400;

struct shape_case {
  std::string_view name;
  kernel_shape kernel;
};
constexpr std::array shapes{
    shape_case{"1.5 us; 16 blocks", {1.5, 16}},
    shape_case{"1.5 us; 264 blocks", {1.5, 264}},
    shape_case{"8 us; 16 blocks", {8, 16}},
    shape_case{"8 us; 264 blocks", {8, 264}},
};

std::vector<std::string> cases(const run_options&) {
  std::vector<std::string> names;
  for (const shape_case& s : shapes) names.emplace_back(s.name);
  return names;
}

std::vector<graph_kind> all_variants() {
  std::vector<graph_kind> all;
  const auto add = [&](const char* name, gate_way how, std::initializer_list<unsigned> intervals) {
    for (const unsigned every : intervals)
      all.push_back({name, node_kind::none, how, every, 1, kernels_of_chain});
  };
  add("no gates", gate_way::none, {1}); // the first one is the reference
  add("beside", gate_way::beside, {1, 2, 4, 8});
  add("in line", gate_way::in_line, {2, 4, 8, 16});
  add("wait nodes, pinned memory", gate_way::wait_on_host, {2, 4, 8, 16});
  add("wait nodes, device memory", gate_way::wait_on_device, {2, 4, 8, 16});
  return all;
}

ordered_json measure(scene& s, const std::string& which, const run_options& o) {
  const kernel_shape& kernel = std::ranges::find(shapes, which, &shape_case::name)->kernel;
  s.watch().step("set-up", 20);
  const cudaStream_t on = s.new_stream(false);
  cudaEvent_t from = nullptr;
  cudaEvent_t to = nullptr;
  check(cudaEventCreate(&from), "event");
  check(cudaEventCreate(&to), "event");
  struct variant {
    graph_kind kind;
    unsigned gates;
    executable graph;
    std::vector<double> us;
  };
  std::vector<variant> all;
  for (const graph_kind& kind : all_variants()) {
    const made_graph made = s.make().make(kind, kernel, s.words(0));
    all.push_back({kind, made.gates, instantiate(made.handle), {}});
  }
  const int rounds = o.quick ? 5 : 15;
  const int replays = o.quick ? 3 : 5;
  s.watch().step("replays", 20);
  for (int round = 0; round <= rounds; ++round) // the first one warms up
    for (variant& v : all) {
      const auto launch = [&] { check(driver().cuGraphLaunch(v.graph.get(), on), "launch"); };
      launch(); // the graph before it was another
      check(cudaEventRecord(from, on), "event");
      for (int i = 0; i < replays; ++i) launch();
      check(cudaEventRecord(to, on), "event");
      check(cudaEventSynchronize(to), "replays");
      float ms = 0;
      check(cudaEventElapsedTime(&ms, from, to), "event");
      if (round > 0) v.us.push_back(1e3 * static_cast<double>(ms) / replays);
    }
  s.drain();
  const double plain = experiment::median(all.front().us);
  ordered_json out{{"kernels", kernels_of_chain}, {"plain_us", plain}};
  for (const variant& v : all) {
    const double more = experiment::median(v.us) - plain;
    out["variants"].push_back({{"gates", v.kind.name},
                               {"every", v.gates == 0 ? 0 : v.kind.every},
                               {"n", v.gates},
                               {"us", summary(v.us)},
                               {"percent", 100 * more / plain},
                               {"us_per_gate", v.gates == 0 ? 0 : more / v.gates}});
  }
  return out;
}

constexpr int name_width = 28;

void print_head(const run_options&) {
  fmt::print("cost: time of a chain of {} kernels with open gates, us, variants in turn\n"
             "{:<{}} {:>6} {:>9} {:>9} {:>9} {:>9} {:>11}\n",
             kernels_of_chain, "gates", name_width, "every", "p10", "p50", "p90", "percent",
             "us a gate");
}

void print(const ordered_json& figures, const run_options&) {
  const ordered_json& f = figures[0];
  fmt::print("kernels of {}", f["case"].get<std::string>());
  if (!f.contains("variants")) fmt::print(": {}", f.contains("hangs") ? "hangs" : "error");
  fmt::print("\n");
  for (const ordered_json& v : f.value("variants", ordered_json::array())) {
    const ordered_json& us = v["us"];
    fmt::print("{:<{}} {:>6} {:>9.1f} {:>9.1f} {:>9.1f}", v["gates"].get<std::string>(), name_width,
               v["n"] == 0 ? "" : fmt::format("{}", v["every"].get<unsigned>()),
               us["p10"].get<double>(), us["p50"].get<double>(), us["p90"].get<double>());
    if (v["n"] != 0)
      fmt::print(" {:>+9.2f} {:>+11.3f}", v["percent"].get<double>(),
                 v["us_per_gate"].get<double>());
    fmt::print("\n");
  }
}

} // namespace

part cost_part() { return {"cost", false, cases, measure, print_head, print}; }

} // namespace standing

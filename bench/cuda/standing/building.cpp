// SPDX-License-Identifier: Apache-2.0
#include "standing/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>

namespace standing {

using gsched::cuda::check;
using gsched::cuda::driver;

namespace {

constexpr double pause_seconds = 20e-6; ///< from one launch's end to the next launch

enum class work { none, clone, add, instantiate, upload };
struct work_kind {
  work what;
  std::string_view name;
};
constexpr std::array kinds{
    work_kind{work::clone, "clone"},
    work_kind{work::add, "build node by node"},
    work_kind{work::instantiate, "instantiate"},
    work_kind{work::upload, "instantiate and upload"},
};

struct work_case {
  std::string name;
  work what = work::none;
  unsigned nodes = 0;
};

std::vector<work_case> all_cases(bool quick) {
  std::vector<work_case> all{{"(nothing)"}};
  const std::vector<unsigned> sizes =
      quick ? std::vector{50U, 1000U} : std::vector{50U, 200U, 1000U, 5000U};
  for (const work_kind& k : kinds)
    for (const unsigned nodes : sizes)
      all.push_back({fmt::format("{}: {} nodes", k.name, nodes), k.what, nodes});
  return all;
}

std::vector<std::string> cases(const run_options& o) {
  std::vector<std::string> names;
  for (const work_case& c : all_cases(o.quick)) names.push_back(c.name);
  return names;
}

/// Sums of the times of the builder's steps.
struct builder_sums {
  unsigned graphs = 0;
  double build_us = 0; ///< cloning, or adding nodes
  double instantiate_us = 0;
  double upload_us = 0;
  double destroy_us = 0;
};

/// Builds graphs without a pause.
void build_until(const std::atomic<bool>& stops, const work_case& c, scene& s, cudaStream_t on,
                 builder_sums& sums) {
  const graph source = s.make().chain(c.nodes, small_kernels);
  double since = experiment::seconds_now();
  const auto lap = [&](double& into) {
    const double now = experiment::seconds_now();
    into += 1e6 * (now - since);
    since = now;
  };
  while (!stops.load(std::memory_order_relaxed)) { // <- measure, stopper
    graph copy;
    executable made;
    since = experiment::seconds_now();
    if (c.what == work::clone) {
      CUgraph clone = nullptr;
      check(driver().cuGraphClone(&clone, source.get()), "clone");
      copy.reset(clone);
    } else if (c.what == work::add) {
      copy = s.make().chain(c.nodes, small_kernels);
    }
    lap(sums.build_us);
    if (c.what == work::instantiate || c.what == work::upload) made = instantiate(source);
    lap(sums.instantiate_us);
    if (c.what == work::upload) {
      check(driver().cuGraphUpload(made.get(), on), "upload");
      check(cudaStreamSynchronize(on), "upload");
    }
    lap(sums.upload_us);
    made.reset();
    copy.reset();
    lap(sums.destroy_us);
    ++sums.graphs;
  }
}

ordered_json measure(scene& s, const std::string& which, const run_options& o) {
  const std::vector<work_case> all = all_cases(o.quick);
  const work_case& c = *std::ranges::find(all, which, &work_case::name);
  s.watch().step("set-up", 10);
  const marked_launch small(s);
  const cudaStream_t uploads = s.new_stream(false);
  builder_sums sums;
  std::atomic<bool> stops{false};
  std::vector<double> latency;
  std::vector<double> call;
  worker builder(o.gpu);
  const struct stopper {
    std::atomic<bool>& stops;
    ~stopper() { stops.store(true, std::memory_order_relaxed); } // -> build_until
  } at_the_end{stops}; // before the worker's destructor waits
  if (c.what != work::none) builder.post([&] { build_until(stops, c, s, uploads, sums); });
  pass(20e-3); // its first graph takes longer
  s.watch().step("launches", 10);
  const double end = experiment::seconds_now() + (o.quick ? 0.25 : 0.6);
  while (experiment::seconds_now() < end) {
    s.clear_marks();
    const double from = experiment::seconds_now();
    small.launch();
    const double returned = experiment::seconds_now();
    if (!holds_within(5, [&] { return s.marked(0); }))
      throw gsched::error(gsched::errc::device_failed, "a launch has not run within 5 s");
    latency.push_back(1e6 * (experiment::seconds_now() - from));
    call.push_back(1e6 * (returned - from));
    pass(pause_seconds);
  }
  stops.store(true, std::memory_order_relaxed); // -> build_until
  s.watch().step("end of the builder", 10);
  while (!builder.returned()) {
  }
  s.drain();
  ordered_json out{
      {"nodes", c.nodes}, {"latency_us", summary(latency)}, {"call_us", summary(call)}};
  if (c.what == work::none) return out;
  static_cast<void>(builder.us()); // rethrows its exception
  const auto each = [&](double us) { return us / std::max(sums.graphs, 1U); };
  out["graphs"] = sums.graphs;
  out["each_us"] = {{"build", each(sums.build_us)},
                    {"instantiate", each(sums.instantiate_us)},
                    {"upload", each(sums.upload_us)},
                    {"destroy", each(sums.destroy_us)}};
  return out;
}

constexpr int name_width = 36;

void print_head(const run_options&) {
  fmt::print("building: what another thread builds without a pause, us for each graph; and a small "
             "graph, us from its launch to its end, and of the call alone\n"
             "{:<{}} {:>9} {:>8} {:>8} {:>8}  {:>24}  {:>24}\n{:<{}} {:>9} {:>8} {:>8} {:>8}",
             "", name_width, "clone or", "instan-", "", "", "launch to end", "call",
             "another thread", name_width, "add", "tiate", "upload", "destroy");
  for (int i = 0; i < 2; ++i) fmt::print("  {:>8}{:>8}{:>8}", "p50", "p99", "max");
  fmt::print("\n");
}

void print(const ordered_json& figures, const run_options&) {
  const ordered_json& f = figures[0];
  fmt::print("{:<{}}", f["case"].get<std::string>(), name_width);
  if (!f.contains("latency_us")) {
    fmt::print(" {:>9}\n", f.contains("hangs") ? "hangs" : "error");
    return;
  }
  if (const auto each = f.find("each_us"); each != f.end())
    fmt::print(" {:>9.1f} {:>8.1f} {:>8.1f} {:>8.1f}", (*each)["build"].get<double>(),
               (*each)["instantiate"].get<double>(), (*each)["upload"].get<double>(),
               (*each)["destroy"].get<double>());
  else
    fmt::print(" {:>9} {:>8} {:>8} {:>8}", "", "", "", "");
  for (const char* what : {"latency_us", "call_us"})
    fmt::print("  {:>8.1f}{:>8.1f}{:>8.1f}", f[what]["p50"].get<double>(),
               f[what]["p99"].get<double>(), f[what]["max"].get<double>());
  fmt::print("\n");
}

} // namespace

part building_part() { return {"building", false, cases, measure, print_head, print}; }

} // namespace standing

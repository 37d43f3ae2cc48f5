// SPDX-License-Identifier: Apache-2.0
// Random pairs of graphs, where the best-effort graph is stopped at random instants while the
// urgent one runs: nothing may hang, and both must leave the memory of undisturbed runs. Each
// number of hardware queues has its own processes, because a hang ends a process. Failing cases are
// reduced to the smallest pair that still fails.

#include "preemption_torture/run.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <limits>

namespace {

/// Bits of the named features.
std::uint32_t features_of(const std::vector<std::string>& names) {
  std::uint32_t bits = 0;
  for (const std::string& name : names) {
    const auto& all = work_graph::feature_names;
    const auto at = std::find(all.begin(), all.end(), name);
    if (at == all.end())
      throw CLI::ValidationError("\"" + name + "\", expected some of " +
                                 fmt::format("{}", fmt::join(all, ", ")));
    bits |= 1u << (at - all.begin());
  }
  return bits;
}

} // namespace

int main(int argc, char** argv) {
  preemption_torture::run_options o;
  std::vector<std::string> features;
  std::vector<std::string> without;
  bool child = false;
  bool print = false;
  CLI::App app(
      "Random graphs preempted at random instants, on a GPU. Exit status 1: something hung, "
      "differed or was refused, or the time was over first.");
  const auto add = [&](const char* name, auto& value, auto least, auto most, const char* about) {
    app.add_option(name, value, about)->check(CLI::Range(least, most))->capture_default_str();
  };
  constexpr auto most = std::numeric_limits<std::uint64_t>::max() / 2;
  add("--preemptions", o.preemptions, std::uint64_t{1}, most, "of all settings together");
  add("--seconds", o.seconds, 0.1, 1e6, "time for the cases");
  add("--seed", o.seed, std::uint64_t{0}, most, "of the first case");
  add("--cases", o.cases, std::uint64_t{0}, most, "of each setting at most; 0: any number");
  add("--max-nodes", o.shape.most_nodes, 1u, 10000u, "of a graph");
  add("--lanes", o.shape.most_lanes, 1u, 32u, "that yield, at most");
  app.add_option("--features", features,
                 "only these: " + fmt::format("{}", fmt::join(work_graph::feature_names, ", ")))
      ->delimiter(',');
  app.add_option("--without", without, "all features but these")->delimiter(',');
  app.add_option("--connections", o.connections, "CUDA_DEVICE_MAX_CONNECTIONS, one after the other")
      ->delimiter(',')
      ->check(CLI::Range(1u, 128u))
      ->capture_default_str();
  add("--hang-seconds", o.hang_seconds, 0.1, 600., "what takes longer counts as a hang");
  add("--alone-runs", o.alone_runs, 1u, 1000000u,
      "of each graph by CUDA alone; a case whose graphs differ then is skipped");
  add("--shrink-seconds", o.shrink_seconds, 0., 1e5, "time to make each failing case smaller");
  add("--failures", o.failures, 1u, 1000u, "after so many the run ends");
  app.add_option("--keep", o.keep, "folder for the text of failing cases")
      ->check(CLI::ExistingDirectory)
      ->capture_default_str();
  app.add_option("--replay", o.replay, "a file of cases to run in place of random ones")
      ->check(CLI::ExistingFile);
  add("--repeat", o.repeat, 1u, 1000000u, "of each case of that file");
  app.add_flag("--print", print, "print the case of --seed, and run nothing");
  add("--gpu", o.gpu, 0, 1024, "the GPU's number");
  app.add_option("--json", o.json, "write the figures to this file, as they come");
  app.add_flag("--child", child)->group("");
  try {
    app.parse(argc, argv);
    if (!features.empty()) o.shape.features = features_of(features);
    o.shape.features &= ~features_of(without);
  } catch (const CLI::ParseError& wrong) {
    if (wrong.get_exit_code() == 0) return app.exit(wrong);
    fmt::print(stderr, "gsched.gpu.preemption_torture: {}\n", wrong.what());
    return 2;
  }
  try {
    if (print) {
      fmt::print("{}",
                 preemption_torture::to_text(preemption_torture::random_case(o.seed, o.shape)));
      return 0;
    }
    if (child) preemption_torture::run_child(o);
    return preemption_torture::run_all(o) ? 0 : 1;
  } catch (const std::exception& wrong) {
    fmt::print(stderr, "gsched.gpu.preemption_torture: {}\n", wrong.what());
    return 1;
  }
}

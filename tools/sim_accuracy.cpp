// SPDX-License-Identifier: Apache-2.0
// The error of the simulated GPU against the measured one: one graph alone, one graph on part of
// the SMs, and two graphs at once. Prints median, 90th percentile and worst error by kind.

#include "sim_accuracy/input.hpp"
#include "sim_accuracy/replays.hpp"
#include "sim_accuracy/report.hpp"

#include "common/cli/command_line.hpp"
#include "common/cli/device_option.hpp"
#include "common/cli/files.hpp"
#include "common/cli/main.hpp"
#include "common/cli/output_options.hpp"
#include "common/report/save.hpp"
#include "common/run/simulated_backend.hpp"

#include <gsched/sim/preset.hpp>

#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <string>

namespace {

using namespace sim_accuracy;
using gsched::profile;
using gsched::sm_count;

constexpr double events_us = 1; ///< two timing events around each replay of the pairs

std::string shown(const model_batch& m) { return fmt::format("{}_b{}", m.first, m.second); }

const profile* find(const profile_set& all, const model_batch& what) {
  const auto at = all.find(what);
  return at == all.end() ? nullptr : &at->second;
}

void forget_replays(profile& p) {
  p.graph_replay.reset();
  p.graph_replay_by_sms.clear();
}

/// `known`: what the simulated GPU knows of them.
outcome compare_graphs(const gsched::sim::preset& device, const profile_set& all,
                       const profile_set& known) {
  outcome o{"graph", {}, 0, true};
  for (const auto& [key, p] : all) {
    if (!p.graph_replay) continue;
    o.rows.push_back({shown(key), "graph", gsched::to_us(*p.graph_replay),
                      replay_alone(device, known.at(key)).us});
  }
  return o;
}

outcome compare_partitions(const gsched::sim::preset& device, const profile_set& all,
                           const std::vector<partition_row>& rows) {
  outcome o{"partition", {}, 0, false};
  for (const partition_row& r : rows) {
    const profile* const p = find(all, r.what);
    if (p == nullptr) {
      ++o.without_profile;
      continue;
    }
    const solo_time t = replay_alone(device, *p, sm_count{r.sms});
    o.rows.push_back({fmt::format("{} on {} SMs", shown(r.what), t.sms.count()),
                      fmt::format("{} SMs", t.sms.count()), r.latency_us, t.us});
  }
  return o;
}

outcome compare_pairs(const gsched::sim::preset& device, const profile_set& all,
                      const std::vector<corun_row>& rows) {
  outcome o{"corun", {}, 0, false};
  for (const corun_row& r : rows) {
    const profile* const a = find(all, r.what[0]);
    const profile* const b = find(all, r.what[1]);
    if (a == nullptr || b == nullptr) {
      ++o.without_profile;
      continue;
    }
    const bool shared = r.sms[0] == device.sms.count() && r.sms[1] == device.sms.count();
    const auto lane = [&](std::size_t i) { return sm_count{shared ? 0 : r.sms[i]}; };
    const auto [a_us, b_us] = replay_beside(device, *a, lane(0), *b, lane(1));
    for (const std::size_t i : {0u, 1u})
      o.rows.push_back({fmt::format("{} on {} SMs beside {} on {}", shown(r.what[i]), r.sms[i],
                                    shown(r.what[1 - i]), r.sms[1 - i]),
                        shared ? "shared" : "disjoint", r.corun_us[i],
                        (i == 0 ? a_us : b_us) + events_us});
  }
  return o;
}

struct options : common::device_choice, common::outputs {
  std::string what; ///< graph, partition or corun
  std::string profiles = common::shipped("profiles").string(), table;
  bool ignore_scaling = false, ignore_replays = false;
};

/// The file of measurements; empty where the profiles hold them.
std::filesystem::path table_of(const options& o) {
  if (o.what == "graph" || !o.table.empty()) return o.table;
  return common::shipped(o.what == "corun" ? "corun_pairs.csv" : "latency_batch_partition.csv");
}

void record_inputs(const options& o) {
  common::record_input("--table", table_of(o));
  std::error_code ignored;
  if (!std::filesystem::is_directory(o.profiles, ignored))
    return common::record_input("--profiles", o.profiles);
  for (std::filesystem::directory_iterator at(o.profiles, ignored), end; !ignored && at != end;
       at.increment(ignored))
    if (at->path().extension() == ".json") common::record_input("--profiles", at->path());
}

constexpr const char* examples = R"(
Examples
  sim_accuracy graph
      the profiles that ship with gsched, each alone on the GPU
  sim_accuracy partition --ignore-scaling
      how far the simulator's law of scaling is off where no times on fewer SMs are known
  sim_accuracy graph --ignore-replays
      how far its law of graphs is off where the times of whole graphs are not known
  sim_accuracy corun --device mine.json --profiles mine --table mine.csv
      your own preset, profiles and measurements

Exit code: 0; 1 for a failure while running; 2 for a usage or input error, reported in one line.)";

std::optional<options> parse(int argc, char** argv) {
  options o;
  common::device_option device({.gpu = false});
  common::output_options output;
  common::command_line line(
      "sim_accuracy", "Compares the simulated GPU with measurements of a real one.", examples);
  const auto add = [&](const char* name, const char* about, bool tables) {
    line.subcommand(name, about);
    line.option("--profiles", o.profiles, "DIR_OR_FILE", "A directory of profiles, or one file");
    if (tables) {
      line.option("--table", o.table, "FILE", "The measurements, as CSV; default: those shipped");
      line.flag("--ignore-scaling", o.ignore_scaling,
                "As if the profiles held no times on fewer SMs");
    }
    line.flag("--ignore-replays", o.ignore_replays,
              "As if the profiles held no times of whole graphs");
    device.declare(line);
    output.declare(line, {.json = "All rows, and the summary", .progress = false});
  };
  add("graph", "Each profile as one graph, against its graph_replay_us", false);
  add("partition", "A graph on some of the SMs", true);
  add("corun", "Two graphs at once, on SMs of their own and sharing all", true);
  if (!line.parse(argc, argv)) return std::nullopt;
  o.what = line.chosen();
  device.read(o);
  record_inputs(o);
  output.read(o);
  return o;
}

int serve(const options& o) {
  const gsched::sim::preset preset = common::simulated_gpu_of(o).preset;
  profile_set all = read_profiles(o.profiles);
  if (o.ignore_scaling)
    for (auto& [key, p] : all) {
      p.graph_replay_by_sms.clear();
      for (gsched::profile_operation& op : p.operations) op.work.by_sms.clear();
    }
  profile_set known = all;
  if (o.ignore_replays)
    for (auto& [key, p] : known) forget_replays(p);
  const outcome of =
      o.what == "partition" ? compare_partitions(preset, known, read_partition_rows(table_of(o)))
      : o.what == "corun"   ? compare_pairs(preset, known, read_corun_rows(table_of(o)))
                            : compare_graphs(preset, all, known);
  if (of.rows.empty())
    throw gsched::error(gsched::errc::bad_profile,
                        (of.without_profile > 0 ? "--table: no row has a profile"
                                                : "--profiles: no graph_replay_us") +
                            std::string(", expected something to compare"));
  if (!o.json.empty())
    common::save(o.json,
                 [&](std::ostream& to) { write_json(to, of, o.ignore_scaling, o.ignore_replays); });
  if (!o.quiet) print(of);
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  return common::run_main("sim_accuracy", argc, argv, parse, serve);
}

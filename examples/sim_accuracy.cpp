// SPDX-License-Identifier: Apache-2.0
// How far the simulated GPU is from the one that was measured: one graph alone, one graph on part
// of the SMs, and two graphs at once. Prints median, 90th percentile and worst error by kind.

#include "sim_accuracy/input.hpp"
#include "sim_accuracy/replays.hpp"
#include "sim_accuracy/report.hpp"

#include <gsched/core/error.hpp>
#include <gsched/sim/preset.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdio>
#include <exception>
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

outcome compare_graphs(const gsched::sim::preset& device, const profile_set& all) {
  outcome o{"graph", {}, 0, true};
  for (const auto& [key, p] : all) {
    if (!p.graph_replay) continue;
    o.rows.push_back(
        {shown(key), "graph", gsched::to_us(*p.graph_replay), replay_alone(device, p).us});
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

} // namespace

int main(int argc, char** argv) {
  CLI::App app("Compares the simulated GPU with measurements of a real one.");
  app.require_subcommand(1);
  const std::string data = GSCHED_EXAMPLES_DATA_DIR;
  std::string device = "sim:h200";
  std::string profiles = data + "/profiles";
  std::string table;
  std::string json;
  bool ignore_scaling = false;
  const auto add = [&](const char* name, const char* about) {
    CLI::App* const sub = app.add_subcommand(name, about);
    sub->add_option("--device", device, "the simulated device")->capture_default_str();
    sub->add_option("--profiles", profiles, "a directory of profiles, or one file");
    sub->add_option("--json", json, "write all rows and the summary to this file");
    sub->add_flag("--ignore-scaling", ignore_scaling,
                  "as if the profiles held no times on fewer SMs");
    return sub;
  };
  add("graph", "each profile as one graph, against its graph_replay_us");
  CLI::App* const partition = add("partition", "a graph on some of the SMs");
  CLI::App* const corun = add("corun", "two graphs at once, on SMs of their own and sharing all");
  for (CLI::App* const sub : {partition, corun})
    sub->add_option("--table", table, "the CSV file to compare with; unset: the one shipped");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);
    fmt::print(stderr, "sim_accuracy: {}\n", e.what());
    return 2;
  }
  try {
    const gsched::sim::preset preset = gsched::sim::preset_by_name(device);
    profile_set all = read_profiles(profiles);
    if (ignore_scaling)
      for (auto& [key, p] : all)
        for (gsched::profile_operation& op : p.operations) op.work.by_sms.clear();
    const auto file = [&](const char* shipped) { return table.empty() ? data + shipped : table; };
    outcome o;
    if (*partition)
      o = compare_partitions(preset, all,
                             read_partition_rows(file("/latency_batch_partition.csv")));
    else if (*corun)
      o = compare_pairs(preset, all, read_corun_rows(file("/corun_pairs.csv")));
    else
      o = compare_graphs(preset, all);
    if (!json.empty()) write_json(o, ignore_scaling, json);
    print(o);
    return 0;
  } catch (const gsched::error& e) {
    fmt::print(stderr, "sim_accuracy: {}\n", e.what());
    return 2;
  } catch (const std::exception& e) {
    fmt::print(stderr, "sim_accuracy: {}\n", e.what());
    return 1;
  }
}

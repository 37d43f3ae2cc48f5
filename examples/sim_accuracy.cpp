// SPDX-License-Identifier: Apache-2.0
// How far the simulated GPU is from the one that was measured: one graph alone, one graph on part
// of the SMs, and two graphs at once. Prints median, 90th percentile and worst error by kind.

#include "sim_accuracy/input.hpp"
#include "sim_accuracy/laws.hpp"
#include "sim_accuracy/report.hpp"

#include <gsched/core/error.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <map>
#include <optional>
#include <string>

namespace {

using namespace sim_accuracy;
using gsched::sm_count;
using gsched::to_us;

constexpr std::uint32_t partition_unit = 8;
constexpr double events_us = 1; ///< two timing events around each replay of the pairs

std::string shown(const model_batch& m) { return fmt::format("{}_b{}", m.first, m.second); }

class graphs {
public:
  graphs(const profile_set& profiles, bool ignore_scaling) {
    for (const auto& [key, p] : profiles) all_.try_emplace(key, p, ignore_scaling);
  }
  const scaled_graph* find(const model_batch& m) const {
    const auto at = all_.find(m);
    return at == all_.end() ? nullptr : &at->second;
  }

private:
  std::map<model_batch, scaled_graph> all_;
};

outcome compare_graphs(const profile_set& profiles, const graphs& all) {
  outcome o{"graph", {}, 0, true};
  for (const auto& [key, p] : profiles) {
    if (!p.graph_replay) continue;
    const scaled_graph& g = *all.find(key);
    o.rows.push_back({shown(key), "graph", to_us(*p.graph_replay), to_us(replay(g, g.device))});
  }
  return o;
}

outcome compare_partitions(const std::vector<partition_row>& rows, const graphs& all) {
  outcome o{"partition", {}, 0, false};
  for (const partition_row& r : rows) {
    const scaled_graph* const g = all.find(r.what);
    if (g == nullptr) {
      ++o.without_profile;
      continue;
    }
    const sm_count sms = granted(r.sms, g->device, partition_unit);
    o.rows.push_back({fmt::format("{} on {} SMs", shown(r.what), sms.count()),
                      fmt::format("{} SMs", sms.count()), r.latency_us, to_us(replay(*g, sms))});
  }
  return o;
}

outcome compare_pairs(const std::vector<corun_row>& rows, const graphs& all) {
  outcome o{"corun", {}, 0, false};
  for (const corun_row& r : rows) {
    const scaled_graph* const g[2] = {all.find(r.what[0]), all.find(r.what[1])};
    if (g[0] == nullptr || g[1] == nullptr) {
      ++o.without_profile;
      continue;
    }
    const sm_count sms[2] = {sm_count{r.sms[0]}, sm_count{r.sms[1]}};
    const bool shared = sms[0] == g[0]->device && sms[1] == g[1]->device;
    if (!shared && r.sms[0] + r.sms[1] > g[0]->device.count())
      throw gsched::error(gsched::errc::bad_profile,
                          fmt::format("{} and {} on {} and {} SMs: expected partitions that fit "
                                      "beside each other, or all SMs twice",
                                      shown(r.what[0]), shown(r.what[1]), r.sms[0], r.sms[1]));
    const pair_times t = run_pair(*g[0], sms[0], *g[1], sms[1]);
    for (std::size_t i = 0; i < 2; ++i)
      o.rows.push_back({fmt::format("{} on {} SMs beside {} on {}", shown(r.what[i]), r.sms[i],
                                    shown(r.what[1 - i]), r.sms[1 - i]),
                        shared ? "shared" : "disjoint", r.corun_us[i], t.us[i] + events_us});
  }
  return o;
}

} // namespace

int main(int argc, char** argv) {
  CLI::App app("Compares the simulated GPU with measurements of a real one.");
  app.require_subcommand(1);
  const std::string data = GSCHED_EXAMPLES_DATA_DIR;
  std::string profiles = data + "/profiles";
  std::string table;
  std::string json;
  bool ignore_scaling = false;
  const auto add = [&](const char* name, const char* about) {
    CLI::App* const sub = app.add_subcommand(name, about);
    sub->add_option("--profiles", profiles, "a directory of profiles, or one file");
    sub->add_option("--table", table, "the CSV file to compare with; unset: the one shipped");
    sub->add_option("--json", json, "write all rows and the summary to this file");
    sub->add_flag("--ignore-scaling", ignore_scaling,
                  "as if the profiles held no times on fewer SMs");
    return sub;
  };
  add("graph", "each profile as one graph, against its graph_replay_us");
  CLI::App* const partition = add("partition", "a graph on some of the SMs");
  CLI::App* const corun = add("corun", "two graphs at once, on SMs of their own and sharing all");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);
    fmt::print(stderr, "sim_accuracy: {}\n", e.what());
    return 2;
  }
  try {
    const profile_set read = read_profiles(profiles);
    const graphs all(read, ignore_scaling);
    const auto file = [&](const char* shipped) { return table.empty() ? data + shipped : table; };
    const outcome o =
        *partition
            ? compare_partitions(read_partition_rows(file("/latency_batch_partition.csv")), all)
        : *corun ? compare_pairs(read_corun_rows(file("/corun_pairs.csv")), all)
                 : compare_graphs(read, all);
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

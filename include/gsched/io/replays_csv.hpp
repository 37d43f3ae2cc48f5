// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/interference/corun_pairs.hpp>
#include <gsched/io/corun_csv.hpp>
#include <gsched/io/csv_table.hpp>
#include <gsched/io/latency_csv.hpp>
#include <gsched/job/operation.hpp>
#include <gsched/job/profile.hpp>
#include <gsched/partition/latency_table.hpp>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace gsched {

/// Times of whole graphs alone, by their names as in profile::full_name, by rising SMs.
using replays_by_name = std::map<std::string, std::vector<scaling_point>>;

/// What a latency table says, and for sizes that it lacks the median of what pairs say of their
/// graphs alone.
///
/// Cost     O(rows x log rows).
[[nodiscard]] inline replays_by_name replays_of(std::span<const latency_row> rows,
                                                std::span<const corun_pair> pairs) {
  std::map<std::string, std::map<sm_count, std::vector<duration>>> all;
  for (const latency_row& r : rows)
    all[r.model + "_b" + std::to_string(r.batch)][r.sms] = {r.latency};
  std::map<std::string, std::map<sm_count, std::vector<duration>>> beside;
  for (const corun_pair& p : pairs)
    for (const corun_side& s : p.side) beside[s.full_name()][s.sms].push_back(s.solo);
  for (auto& [name, by_sms] : beside)
    for (auto& [sms, times] : by_sms) all[name].try_emplace(sms, std::move(times));
  replays_by_name replays;
  for (auto& [name, by_sms] : all)
    for (auto& [sms, times] : by_sms) {
      const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
      std::nth_element(times.begin(), middle, times.end());
      replays[name].push_back({sms, *middle});
    }
  return replays;
}

/// The same from a folder that `measure` wrote, by its latency_batch_partition.csv and
/// corun_pairs.csv, as far as they are there.
///
/// Errors   those of read_latency_rows and read_corun_pairs.
[[nodiscard]] inline replays_by_name load_replays(const std::filesystem::path& folder,
                                                  sm_count device) {
  std::vector<latency_row> rows;
  std::vector<corun_pair> pairs;
  if (const auto file = folder / "latency_batch_partition.csv"; std::filesystem::exists(file))
    rows = read_latency_rows(csv_table(file, {"model", "batch", "sms", "latency_us"}));
  if (const auto file = folder / "corun_pairs.csv"; std::filesystem::exists(file))
    pairs = load_corun_pairs(file, device);
  return replays_of(rows, pairs);
}

/// Adds to a profile the times of its graph on fewer SMs, if they are known. Those that it had are
/// gone. Returns whether it has changed.
inline bool set_replays(profile& p, const replays_by_name& replays) {
  const auto found = replays.find(p.full_name());
  if (found == replays.end() || !p.graph_replay) return false;
  std::vector<scaling_point> points;
  for (const scaling_point& s : found->second)
    if (s.sms < p.sms) points.push_back(s);
  if (points == p.graph_replay_by_sms) return false;
  p.graph_replay_by_sms = std::move(points);
  return true;
}

} // namespace gsched

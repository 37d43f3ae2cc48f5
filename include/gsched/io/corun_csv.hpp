// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/interference/corun_pairs.hpp>
#include <gsched/io/csv_table.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace gsched {

/// The columns that load_corun_pairs needs, in its order.
[[nodiscard]] inline std::vector<std::string> corun_columns() {
  return {"model_a", "batch_a", "sms_a", "solo_a_us", "corun_a_us",
          "model_b", "batch_b", "sms_b", "solo_b_us", "corun_b_us"};
}

/// Reads pairs of graphs from a CSV file with corun_columns(). `device` is the number of SMs of the
/// device. Either both graphs of a pair have all SMs, or their SMs are disjoint.
///
/// Errors   those of csv_table; a time outside 0.001 us to an hour; SM counts that fit neither
///          case; a pair that is there twice.
[[nodiscard]] inline std::vector<corun_pair> read_corun_pairs(csv_table table, sm_count device) {
  std::vector<corun_pair> pairs;
  using graph = std::tuple<std::string, std::uint32_t, sm_count>;
  std::set<std::pair<graph, graph>> seen;
  while (table.next()) {
    corun_pair p;
    for (std::size_t i = 0; i < 2; ++i) {
      corun_side& s = p.side[i];
      s.model = table.text(5 * i);
      s.batch = table.count(5 * i + 1);
      s.sms = sm_count{table.count(5 * i + 2)};
      s.solo = from_us(table.number(5 * i + 3, 1e-3, 3.6e9));
      s.corun = from_us(table.number(5 * i + 4, 1e-3, 3.6e9));
    }
    const std::uint64_t both = std::uint64_t{p.side[0].sms.count()} + p.side[1].sms.count();
    if (!p.shares(device) && both > device.count())
      table.refuse(std::to_string(p.side[0].sms.count()) + " and " +
                       std::to_string(p.side[1].sms.count()) + " SMs",
                   "all " + std::to_string(device.count()) + " for both, or parts of them");
    const auto key = [](const corun_side& s) { return graph(s.model, s.batch, s.sms); };
    if (!seen.emplace(key(p.side[0]), key(p.side[1])).second)
      table.refuse(p.side[0].model + " beside " + p.side[1].model + " is there twice",
                   "each pair of batches and SMs once");
    pairs.push_back(std::move(p));
  }
  return pairs;
}

/// Reads pairs of graphs from a file.
///
/// Errors   as above; io if the file cannot be read.
[[nodiscard]] inline std::vector<corun_pair> load_corun_pairs(const std::filesystem::path& file,
                                                              sm_count device) {
  return read_corun_pairs(csv_table(file, corun_columns()), device);
}

/// The columns that read_corun_groups needs, in its order: a row for each graph of a group. The
/// rows of a group follow one another.
[[nodiscard]] inline std::vector<std::string> corun_group_columns() {
  return {"group", "model", "batch", "sms", "solo_us", "corun_us"};
}

/// Reads groups of two or more graphs. Either all graphs of a group have all SMs, or their SMs are
/// disjoint. A group may be named by its graphs: "a_b1@64+b_b8@32".
///
/// Errors   those of csv_table; a time outside 0.001 us to an hour; a group of one graph; a group
///          whose name has other graphs than its rows; SM counts that fit neither case.
[[nodiscard]] inline std::vector<corun_group> read_corun_groups(csv_table table, sm_count device) {
  std::vector<corun_group> groups;
  const auto check = [&] {
    if (groups.empty()) return;
    const corun_group& g = groups.back();
    if (g.sides.size() < 2) table.refuse("group " + g.name + " has one graph", "two or more");
    std::uint64_t sum = 0;
    bool all = true;
    std::string of_rows;
    bool is_of_rows = false;
    for (const corun_side& s : g.sides) {
      sum += s.sms.count();
      all = all && s.sms == device;
      of_rows += s.full_name() + "@" + std::to_string(s.sms.count());
      is_of_rows = is_of_rows || g.name.starts_with(of_rows + "+");
      of_rows += "+";
    }
    of_rows.pop_back();
    if (is_of_rows && g.name != of_rows)
      table.refuse("group " + g.name + " has rows of " + of_rows, "one of each of its graphs");
    if (!all && sum > device.count())
      table.refuse("group " + g.name + " has " + std::to_string(sum) + " SMs",
                   "all " + std::to_string(device.count()) + " for each graph, or parts of them");
  };
  while (table.next()) {
    const std::string& name = table.text(0);
    if (groups.empty() || groups.back().name != name) {
      check();
      groups.push_back({name, {}});
    }
    corun_side s;
    s.model = table.text(1);
    s.batch = table.count(2);
    s.sms = sm_count{table.count(3)};
    s.solo = from_us(table.number(4, 1e-3, 3.6e9));
    s.corun = from_us(table.number(5, 1e-3, 3.6e9));
    groups.back().sides.push_back(std::move(s));
  }
  check();
  return groups;
}

/// Reads groups of graphs from a file.
///
/// Errors   as above; io if the file cannot be read.
[[nodiscard]] inline std::vector<corun_group> load_corun_groups(const std::filesystem::path& file,
                                                                sm_count device) {
  return read_corun_groups(csv_table(file, corun_group_columns()), device);
}

} // namespace gsched

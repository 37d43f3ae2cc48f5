// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/io/csv_table.hpp>

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace plan {

inline constexpr std::size_t most_scenarios = 1'000'000;

/// The rates of a scenario: models or apps by index, with requests a second.
struct named_rates {
  std::string name; ///< empty where the file has no column of them
  std::vector<std::pair<std::size_t, double>> rates;
};

/// The columns of read_rates: required ones, and optional ones.
[[nodiscard]] inline std::vector<std::string> rate_columns() { return {"model", "rate"}; }
[[nodiscard]] inline std::vector<std::string> more_rate_columns() { return {"scenario"}; }

/// The lines of a CSV file with columns model, rate and, for more than one scenario, scenario:
/// scenarios as they first come, each with its models as they come. `find(name)` is the place of a
/// model or app, or none.
///
/// Errors   those of csv_table and of find; unknown names, one twice in a scenario, no lines, and
///          more than most_scenarios: each names file and line.
/// Cost     O(lines x models of a scenario), and one find a line.
template <class Find>
[[nodiscard]] std::vector<named_rates> read_rates(gsched::csv_table file, Find&& find) {
  std::vector<named_rates> all;
  std::map<std::string, std::size_t> places;
  while (file.next()) {
    const std::string name = file.has(2) ? file.text(2) : "";
    const std::string& model = file.text(0);
    const std::optional<std::size_t> which = find(model);
    if (!which)
      file.refuse("no rows of '" + model.substr(0, 60) + "'", "a model of the table, or an app");
    const double rate = file.number(1, 0, 1e9);
    const auto [at, is_new] = places.emplace(name, all.size());
    if (is_new) {
      if (all.size() == most_scenarios)
        file.refuse("one scenario more", "at most " + std::to_string(most_scenarios));
      all.push_back({name, {}});
    }
    auto& rates = all[at->second].rates;
    if (std::any_of(rates.begin(), rates.end(), [&](const auto& r) { return r.first == *which; }))
      file.refuse(model + " twice" + (name.empty() ? "" : " in " + name.substr(0, 60)),
                  "each model once");
    rates.emplace_back(*which, rate);
  }
  if (all.empty()) file.refuse("no rates", "a line with a model and its rate");
  return all;
}

} // namespace plan

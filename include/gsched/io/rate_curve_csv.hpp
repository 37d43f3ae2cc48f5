// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/number_text.hpp>
#include <gsched/core/time.hpp>
#include <gsched/io/csv_table.hpp>
#include <gsched/workload/rate_curve.hpp>

#include <filesystem>
#include <map>
#include <string>

namespace gsched {

/// Reads rate curves by name from a CSV file with columns time_s, model and rate. A rate holds
/// until the name's next row. The times of a name rise.
///
/// Errors   those of csv_table; a time that does not rise; no rows.
[[nodiscard]] inline std::map<std::string, rate_curve> read_rate_curves(csv_table table) {
  std::map<std::string, rate_curve> curves;
  while (table.next()) {
    const double s = table.number(0, 0, 1e9);
    rate_curve& c = curves[table.text(1)];
    const time_point at{from_us(s * 1e6)};
    if (!c.empty() && at <= c.back().at)
      table.refuse("time " + number_text(s) + " of " + table.text(1),
                   "one after the time of its row above");
    c.push_back({at, table.number(2, 0, 1e9)});
  }
  if (curves.empty()) table.refuse("no rows", "one");
  return curves;
}
/// Reads rate curves from a file.
///
/// Errors   as above; io if the file cannot be read.
[[nodiscard]] inline std::map<std::string, rate_curve>
load_rate_curves(const std::filesystem::path& file) {
  return read_rate_curves(csv_table(file, {"time_s", "model", "rate"}));
}

} // namespace gsched

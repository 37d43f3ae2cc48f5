// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/time.hpp>
#include <gsched/interference/solo_metrics.hpp>
#include <gsched/io/csv_table.hpp>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace gsched {

/// The columns that read_solo_metrics needs, in its order.
[[nodiscard]] inline std::vector<std::string> solo_columns() {
  return {"model", "batch", "solo_us", "l2_pct", "dram_pct", "sm_active_pct"};
}

/// The columns that it also reads, if they are there.
[[nodiscard]] inline std::vector<std::string> more_solo_columns() {
  return {"ipc",         "l1_pct",   "dram_bytes", "l2_sectors",    "starts",       "exposed_pct",
          "sensitivity", "pressure", "l2_loss",    "start_loss_us", "mean_pressure"};
}

/// Reads the rows of a CSV file with solo_columns(). Further columns are allowed.
///
/// Errors   those of csv_table; a time above an hour; a percentage below 0 or above 200. Values
///          above 100 occur where measurements were scaled to another time; they count as 100. An
///          ipc outside of 0 to 4. Factors and losses outside of their range; losses may be "-".
[[nodiscard]] inline std::vector<solo_metrics> read_solo_metrics(csv_table table) {
  std::vector<solo_metrics> rows;
  while (table.next()) {
    const auto part = [&](std::size_t column) {
      return std::min(1.0, table.number(column, 0, 200) / 100);
    };
    const double us = table.number(2, 1e-3, 3.6e9);
    solo_metrics m{table.text(0), table.count(1), from_us(us), part(3), part(4), part(5)};
    if (table.has(6)) m.ipc = table.number(6, 0, 4);
    if (table.has(7)) m.l1 = part(7);
    if (table.has(8) && table.has(9)) {
      constexpr double sector = 32, most = 1e18;
      const double dram = table.number(8, 0, most);
      const double l2 = sector * table.number(9, 0, most);
      m.kept = l2 > 0 ? std::clamp(1 - dram / l2, 0.0, 1.0) : 0;
    }
    if (table.has(10)) m.starts = table.number(10, 0, 1e9);
    if (table.has(11)) m.exposed = part(11);
    const auto factor = [&](std::size_t column) {
      return table.number(column, corun_factors::least, corun_factors::most);
    };
    if (table.has(12)) m.factors.sensitivity = factor(12);
    if (table.has(13)) m.factors.pressure = factor(13);
    if (table.has(14) && table.text(14) != "-") m.lost.part = table.number(14, 0, l2_loss::most);
    if (table.has(15) && table.text(15) != "-")
      m.at_start.us = table.number(15, 0, start_loss::most);
    if (table.has(16)) m.mean_pressure = factor(16);
    rows.push_back(std::move(m));
  }
  return rows;
}

/// Reads solo metrics from a CSV file.
///
/// Errors   those of read_solo_metrics and of solo_table; bad_profile for a file without rows. Each
///          line begins with the file's name.
[[nodiscard]] inline solo_table load_solo_table(const std::filesystem::path& file) {
  solo_table t;
  std::vector<solo_metrics> rows =
      read_solo_metrics(csv_table(file, solo_columns(), more_solo_columns()));
  if (rows.empty()) throw error(errc::bad_profile, file.string() + ": no rows, expected one");
  for (solo_metrics& m : rows) t.add(std::move(m), file.string());
  return t;
}

} // namespace gsched

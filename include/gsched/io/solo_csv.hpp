// SPDX-License-Identifier: Apache-2.0
#pragma once

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

/// What read_solo_metrics asks of a csv_table.
[[nodiscard]] inline std::vector<std::string> solo_columns() {
  return {"model", "batch", "solo_us", "l2_pct", "dram_pct", "sm_active_pct"};
}

/// The rows of a CSV file with solo_columns(); others are passed over.
///
/// Errors   those of csv_table, a time of over an hour, and a percentage that is negative or over
///          200: more than 100 is what scaling them to another time may give.
[[nodiscard]] inline std::vector<solo_metrics> read_solo_metrics(csv_table table) {
  std::vector<solo_metrics> rows;
  while (table.next()) {
    const auto part = [&](std::size_t column) {
      return std::min(1.0, table.number(column, 0, 200) / 100);
    };
    const double us = table.number(2, 1e-3, 3.6e9);
    rows.push_back({table.text(0), table.count(1), from_us(us), part(3), part(4), part(5)});
  }
  return rows;
}

/// Errors   also those of solo_table; each begins with the file's name.
[[nodiscard]] inline solo_table read_solo_table(const std::filesystem::path& file) {
  solo_table t;
  for (solo_metrics& m : read_solo_metrics(csv_table(file, solo_columns())))
    t.add(std::move(m), file.string());
  return t;
}

} // namespace gsched

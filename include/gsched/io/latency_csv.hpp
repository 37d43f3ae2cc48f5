// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/number_text.hpp>
#include <gsched/io/csv_table.hpp>
#include <gsched/partition/latency_table.hpp>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace gsched {

/// Reads the rows of a CSV file with columns model, batch, sms and latency_us.
///
/// Errors   those of csv_table; a latency above an hour or below a nanosecond.
[[nodiscard]] inline std::vector<latency_row> read_latency_rows(csv_table table) {
  std::vector<latency_row> rows;
  while (table.next()) {
    const double us = table.us(3);
    if (us > 3.6e9 || us < 1e-3) table.refuse(number_text(us) + " us", "0.001 to 3600000000");
    rows.push_back({table.text(0), table.count(1), sm_count{table.count(2)}, from_us(us)});
  }
  return rows;
}

/// Reads a latency table from a CSV file.
///
/// Errors   those of read_latency_rows and of latency_table; each line begins with the file's name.
[[nodiscard]] inline latency_table load_latency_table(const std::filesystem::path& file) {
  return latency_table(read_latency_rows(csv_table(file, {"model", "batch", "sms", "latency_us"})),
                       file.string());
}

} // namespace gsched

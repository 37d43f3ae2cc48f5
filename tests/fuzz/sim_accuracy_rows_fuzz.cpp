// SPDX-License-Identifier: Apache-2.0
#include "readers.hpp"

#include "sim_accuracy/input.hpp"

#include <gsched/io/corun_csv.hpp>

#include <memory>
#include <utility>
#include <vector>

/// Any bytes, as either of the two tables, are refused in one line or are rows with times of at
/// most eleven days.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sim_accuracy;
  using gsched::fuzz::require;
  const auto table = [&](std::vector<std::string> columns) {
    return gsched::csv_table(std::make_unique<std::istringstream>(
                                 std::string(reinterpret_cast<const char*>(data), size)),
                             "t", columns);
  };
  const auto is_time = [](double us) { return us > 0 && us <= 1e12; };
  try {
    for (const partition_row& r : read_partition_rows(table(partition_columns())))
      require(is_time(r.latency_us) && r.sms > 0 && r.what.second > 0);
  } catch (const gsched::error& e) {
    gsched::fuzz::require_one_line(e, "t:");
  }
  try {
    for (const corun_row& r : read_corun_rows(table(corun_columns())))
      for (const std::size_t i : {0u, 1u})
        require(is_time(r.solo_us[i]) && is_time(r.corun_us[i]) && r.sms[i] > 0);
  } catch (const gsched::error& e) {
    gsched::fuzz::require_one_line(e, "t:");
  }
  return 0;
}

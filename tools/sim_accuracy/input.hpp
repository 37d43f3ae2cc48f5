// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/io/corun_csv.hpp>
#include <gsched/io/csv_table.hpp>
#include <gsched/job/profile.hpp>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace sim_accuracy {

using model_batch = std::pair<std::string, std::uint32_t>;
using profile_set = std::map<model_batch, gsched::profile>;

/// Every *.json of a directory, or one file.
/// Errors   gsched::error: bad_profile, io; io also if there is none.
[[nodiscard]] profile_set read_profiles(const std::filesystem::path& where);

/// A measured latency of one graph on a partition.
struct partition_row {
  model_batch what;
  std::uint32_t sms = 0;
  double latency_us = 0;
};

/// Two graphs that ran at the same time: [0] is a, [1] is b.
struct corun_row {
  model_batch what[2];
  std::uint32_t sms[2] = {};
  double solo_us[2] = {};
  double corun_us[2] = {};
};

/// Columns are found by their names, so their order is free.
/// Errors   gsched::error: io; bad_profile with file and line for what cannot be read.
[[nodiscard]] std::vector<partition_row> read_partition_rows(const std::filesystem::path& file);
[[nodiscard]] std::vector<corun_row> read_corun_rows(const std::filesystem::path& file);
/// The same of tables with these columns.
[[nodiscard]] std::vector<std::string> partition_columns();
[[nodiscard]] std::vector<std::string> corun_columns();
[[nodiscard]] std::vector<partition_row> read_partition_rows(gsched::csv_table t);
[[nodiscard]] std::vector<corun_row> read_corun_rows(gsched::csv_table t);

} // namespace sim_accuracy

// SPDX-License-Identifier: Apache-2.0
#include "sim_accuracy/input.hpp"

#include <gsched/core/error.hpp>
#include <gsched/io/corun_csv.hpp>
#include <gsched/io/profile_json.hpp>

#include <algorithm>
#include <system_error>

namespace fs = std::filesystem;

namespace sim_accuracy {

namespace {

using gsched::errc;
using gsched::error;

} // namespace

profile_set read_profiles(const fs::path& where) {
  std::vector<fs::path> files;
  std::error_code failed;
  if (std::error_code ignored; fs::is_directory(where, ignored)) {
    for (const fs::directory_entry& e : fs::directory_iterator(where, failed))
      if (e.path().extension() == ".json") files.push_back(e.path());
  } else {
    files.push_back(where);
  }
  if (failed)
    throw error(errc::io, where.string() + ": " + failed.message() + ", expected profiles");
  if (files.empty()) throw error(errc::io, where.string() + ": no *.json, expected profiles");
  std::sort(files.begin(), files.end());
  profile_set all;
  for (const fs::path& f : files) {
    gsched::profile p = gsched::load_profile(f);
    const model_batch key{p.model, p.batch};
    if (!all.emplace(key, std::move(p)).second)
      throw error(errc::bad_profile, f.string() + ": " + key.first + " with batch " +
                                         std::to_string(key.second) +
                                         " was read already, expected each once");
  }
  return all;
}

std::vector<std::string> partition_columns() { return {"model", "batch", "sms", "latency_us"}; }

std::vector<std::string> corun_columns() {
  return {"model_a", "batch_a", "sms_a", "solo_a_us", "corun_a_us",
          "model_b", "batch_b", "sms_b", "solo_b_us", "corun_b_us"};
}

std::vector<partition_row> read_partition_rows(const fs::path& file) {
  return read_partition_rows(gsched::csv_table(file, partition_columns()));
}

std::vector<corun_row> read_corun_rows(const fs::path& file) {
  return read_corun_rows(gsched::csv_table(file, corun_columns()));
}

std::vector<partition_row> read_partition_rows(gsched::csv_table t) {
  std::vector<partition_row> rows;
  while (t.next()) rows.push_back({{t.text(0), t.count(1)}, t.count(2), t.us(3)});
  if (rows.empty()) t.refuse("no rows", "one or more");
  return rows;
}

std::vector<corun_row> read_corun_rows(gsched::csv_table t) {
  std::vector<corun_row> rows;
  while (t.next()) {
    corun_row r;
    for (std::size_t i = 0; i < 2; ++i) {
      r.what[i] = {t.text(5 * i), t.count(5 * i + 1)};
      r.sms[i] = t.count(5 * i + 2);
      r.solo_us[i] = t.us(5 * i + 3);
      r.corun_us[i] = t.us(5 * i + 4);
    }
    rows.push_back(std::move(r));
  }
  if (rows.empty()) t.refuse("no rows", "one or more");
  return rows;
}

} // namespace sim_accuracy

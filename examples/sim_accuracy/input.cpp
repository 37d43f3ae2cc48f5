// SPDX-License-Identifier: Apache-2.0
#include "sim_accuracy/input.hpp"

#include <gsched/core/error.hpp>
#include <gsched/job/profile_json.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <string_view>
#include <system_error>

namespace fs = std::filesystem;

namespace sim_accuracy {

namespace {

using gsched::errc;
using gsched::error;

/// A CSV file with a header and neither quotes nor commas within a field.
class table {
public:
  table(const fs::path& file, const std::vector<std::string>& columns) : file_(file.string()) {
    std::error_code ignored;
    if (fs::is_directory(file, ignored))
      throw error(errc::io, file_ + ": is a directory, expected a CSV file");
    in_.open(file);
    if (!in_) throw error(errc::io, file_ + ": cannot be opened, expected a CSV file");
    std::vector<std::string> header;
    if (!cut_line(header)) refuse("is empty", "a header line");
    for (const std::string& name : columns) {
      const auto at = std::find(header.begin(), header.end(), name);
      if (at == header.end())
        refuse("has no column " + name, fmt::format("{}", fmt::join(columns, ",")));
      columns_.push_back(static_cast<std::size_t>(at - header.begin()));
    }
    width_ = header.size();
  }

  /// False at the end.
  bool next() {
    do {
      if (!cut_line(fields_)) return false;
    } while (fields_.size() == 1 && fields_[0].empty());
    if (fields_.size() != width_)
      refuse(fmt::format("{} fields", fields_.size()), fmt::format("{}", width_));
    return true;
  }

  const std::string& text(std::size_t column) {
    const std::string& s = fields_[columns_[column]];
    if (s.empty()) refuse("an empty field", "a name");
    return s;
  }
  std::uint32_t count(std::size_t column) {
    std::uint32_t n = 0;
    if (!whole(fields_[columns_[column]], n) || n == 0)
      refuse("'" + shown(fields_[columns_[column]]) + "'", "a whole number from 1");
    return n;
  }
  double us(std::size_t column) {
    double n = 0;
    if (!whole(fields_[columns_[column]], n) || !std::isfinite(n) || !(n > 0))
      refuse("'" + shown(fields_[columns_[column]]) + "'", "microseconds above 0");
    return n;
  }

private:
  template <class T>
  static bool whole(const std::string& s, T& n) {
    const auto [stop, ec] = std::from_chars(s.data(), s.data() + s.size(), n);
    return ec == std::errc{} && stop == s.data() + s.size();
  }

  static std::string shown(std::string s) {
    s.resize(std::min<std::size_t>(s.size(), 60));
    for (char& c : s)
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
    return s;
  }

  bool cut_line(std::vector<std::string>& fields) {
    std::string line;
    if (!std::getline(in_, line)) return false;
    ++line_;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    fields.clear();
    for (std::size_t from = 0; from <= line.size();) {
      const std::size_t comma = std::min(line.find(',', from), line.size());
      fields.push_back(line.substr(from, comma - from));
      from = comma + 1;
    }
    return true;
  }

  [[noreturn]] void refuse(const std::string& wrong, const std::string& expected) const {
    throw error(errc::bad_profile,
                fmt::format("{}:{}: {}, expected {}", file_, std::max(line_, 1), wrong, expected));
  }

  std::string file_;
  std::ifstream in_;
  int line_ = 0;
  std::size_t width_ = 0;
  std::vector<std::size_t> columns_;
  std::vector<std::string> fields_;
};

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
    gsched::profile p = gsched::read_profile(f);
    const model_batch key{p.model, p.batch};
    if (!all.emplace(key, std::move(p)).second)
      throw error(errc::bad_profile, f.string() + ": " + key.first + " with batch " +
                                         std::to_string(key.second) +
                                         " was read already, expected each once");
  }
  return all;
}

std::vector<partition_row> read_partition_rows(const fs::path& file) {
  table t(file, {"model", "batch", "sms", "latency_us"});
  std::vector<partition_row> rows;
  while (t.next()) rows.push_back({{t.text(0), t.count(1)}, t.count(2), t.us(3)});
  return rows;
}

std::vector<corun_row> read_corun_rows(const fs::path& file) {
  table t(file, {"model_a", "batch_a", "sms_a", "solo_a_us", "corun_a_us", "model_b", "batch_b",
                 "sms_b", "solo_b_us", "corun_b_us"});
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
  return rows;
}

} // namespace sim_accuracy

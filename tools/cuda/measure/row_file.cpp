// SPDX-License-Identifier: Apache-2.0
#include "measure/row_file.hpp"

#include "common/cli/run_error.hpp"
#include "common/report/save.hpp"

#include <gsched/core/error.hpp>
#include <gsched/io/read_text.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace measure {

namespace {

constexpr std::size_t most_bytes = std::size_t{256} << 20;

row_file::row fields_of(std::string_view line) {
  row_file::row fields;
  if (line.ends_with('\r')) line.remove_suffix(1);
  for (std::size_t from = 0; from <= line.size();) {
    const std::size_t comma = std::min(line.find(',', from), line.size());
    fields.emplace_back(line.substr(from, comma - from));
    from = comma + 1;
  }
  return fields;
}

std::string line_of(const row_file::row& fields) {
  return fmt::format("{}\n", fmt::join(fields, ","));
}

} // namespace

row_file::row_file(std::filesystem::path file, row columns, std::size_t keys, std::size_t newer)
    : file_(std::move(file)), columns_(std::move(columns)), count_of_keys_(keys), newer_(newer) {
  std::error_code ignored;
  if (std::filesystem::exists(file_, ignored)) read();
}

row_file::row row_file::key_of(const row& fields) const {
  return {fields.begin(), fields.begin() + static_cast<std::ptrdiff_t>(count_of_keys_)};
}

void row_file::read() {
  const std::string text = gsched::read_text(file_, "a CSV file", most_bytes);
  if (text.size() > most_bytes)
    throw gsched::error(gsched::errc::bad_profile,
                        file_.string() + ": too large, expected at most 256 MiB");
  const std::size_t whole = text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1;
  std::size_t number = 0;
  for (std::size_t from = 0; from < whole;) {
    const std::size_t end = text.find('\n', from);
    const row fields = fields_of(std::string_view(text).substr(from, end - from));
    from = end + 1;
    ++number;
    if (!has_header_ && fields.size() <= columns_.size() &&
        fields.size() + newer_ >= columns_.size() &&
        std::equal(fields.begin(), fields.end(), columns_.begin()))
      columns_ = fields;
    if (!has_header_ && fields != columns_)
      throw gsched::error(gsched::errc::bad_profile,
                          fmt::format("{}:1: other columns, expected {}; --anew starts over",
                                      file_.string(), fmt::join(columns_, ",")));
    if (has_header_) {
      if (fields.size() != columns_.size())
        throw gsched::error(gsched::errc::bad_profile,
                            fmt::format("{}:{}: {} fields, expected {}; --anew starts over",
                                        file_.string(), number, fields.size(), columns_.size()));
      ++keys_[key_of(fields)];
    }
    has_header_ = true;
  }
  if (whole == text.size()) return;
  std::error_code failed;
  std::filesystem::resize_file(file_, whole, failed);
  if (failed)
    throw common::run_error(gsched::errc::io, file_.string() +
                                                  ": an incomplete last line cannot be removed, "
                                                  "expected a writable file");
}

bool row_file::has_all(const row& key, std::size_t rows) {
  const auto at = keys_.find(key);
  const std::size_t there = at == keys_.end() ? 0 : at->second;
  if (there == rows) return true;
  if (there > 0) remove(key);
  return false;
}

void row_file::remove(const row& key) {
  std::istringstream lines(gsched::read_text(file_, "a CSV file", most_bytes));
  std::filesystem::path without = file_;
  without += ".new";
  common::save(without, [&](std::ostream& to) {
    std::string line;
    for (bool header = true; std::getline(lines, line); header = false)
      if (header || key_of(fields_of(line)) != key) to << line << '\n';
  });
  std::error_code failed;
  std::filesystem::rename(without, file_, failed);
  if (failed)
    throw common::run_error(gsched::errc::io, file_.string() +
                                                  ": incomplete rows cannot be removed, expected a "
                                                  "writable folder");
  keys_.erase(key);
}

void row_file::add(std::vector<row> rows) {
  std::string text = has_header_ ? "" : line_of(columns_);
  for (row& r : rows) {
    r.resize(columns_.size());
    text += line_of(r);
  }
  std::ofstream out(file_, std::ios::binary | std::ios::app);
  out << text;
  out.close();
  if (!out)
    throw common::run_error(gsched::errc::io, file_.string() +
                                                  ": writing failed, expected room and a writable "
                                                  "path");
  has_header_ = true;
  for (const row& r : rows) ++keys_[key_of(r)];
}

std::string us_text(double us) { return fmt::format("{:.3f}", us); }

} // namespace measure

// SPDX-License-Identifier: Apache-2.0
#include "parts/csv.hpp"

#include <gsched/core/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>

namespace fs = std::filesystem;

namespace parts {

namespace {

using gsched::errc;
using gsched::error;

template <class T>
bool whole(const std::string& s, T& n) {
  const auto [stop, ec] = std::from_chars(s.data(), s.data() + s.size(), n);
  return ec == std::errc{} && stop == s.data() + s.size();
}

std::string shown(std::string s) {
  s.resize(std::min<std::size_t>(s.size(), 60));
  for (char& c : s)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return "'" + s + "'";
}

} // namespace

csv_table::csv_table(const fs::path& file, const std::vector<std::string>& columns,
                     const std::vector<std::string>& may_be_missing)
    : file_(file.string()) {
  std::error_code ignored;
  if (fs::is_directory(file, ignored))
    throw error(errc::io, file_ + ": is a directory, expected a CSV file");
  in_.open(file);
  if (!in_) throw error(errc::io, file_ + ": cannot be opened, expected a CSV file");
  std::vector<std::string> header;
  if (!cut_line(header)) refuse("is empty", "a header line");
  const auto find = [&](const std::string& name) {
    const auto at = std::find(header.begin(), header.end(), name);
    return at == header.end() ? absent : static_cast<std::size_t>(at - header.begin());
  };
  for (const std::string& name : columns) {
    columns_.push_back(find(name));
    if (columns_.back() == absent)
      refuse("has no column " + name, fmt::format("{}", fmt::join(columns, ",")));
  }
  for (const std::string& name : may_be_missing) columns_.push_back(find(name));
  width_ = header.size();
}

bool csv_table::next() {
  do {
    if (!cut_line(fields_)) return false;
  } while (fields_.size() == 1 && fields_[0].empty());
  if (fields_.size() != width_)
    refuse(fmt::format("{} fields", fields_.size()), fmt::format("{}", width_));
  return true;
}

const std::string& csv_table::text(std::size_t column) const {
  const std::string& s = fields_[columns_[column]];
  if (s.empty()) refuse("an empty field", "a name");
  return s;
}

std::uint32_t csv_table::count(std::size_t column, std::uint32_t least) const {
  std::uint32_t n = 0;
  const std::string& s = fields_[columns_[column]];
  if (!whole(s, n) || n < least) refuse(shown(s), fmt::format("a whole number from {}", least));
  return n;
}

double csv_table::us(std::size_t column) const {
  double n = 0;
  const std::string& s = fields_[columns_[column]];
  if (!whole(s, n) || !std::isfinite(n) || !(n > 0)) refuse(shown(s), "microseconds above 0");
  return n;
}

bool csv_table::cut_line(std::vector<std::string>& fields) {
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

void csv_table::refuse(const std::string& wrong, const std::string& expected) const {
  throw error(errc::bad_profile,
              fmt::format("{}:{}: {}, expected {}", file_, std::max(line_, 1), wrong, expected));
}

} // namespace parts

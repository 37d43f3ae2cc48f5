// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <istream>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace gsched {

/// Reads a CSV file with a header, line by line. Fields have neither quotes nor commas. Columns are
/// found by name, so their order is free and further columns are allowed. Empty lines and a UTF-8
/// byte order mark are skipped.
///
/// Errors   one line, "file:line: what, expected": io; bad_profile for content that cannot be read.
/// Cost     O(line) a call of next.
/// Threads  one owner.
class csv_table {
public:
  /// `columns` are required, `may_be_missing` optional. The member functions number the columns in
  /// this order. `name` names the stream in errors.
  csv_table(std::unique_ptr<std::istream> in, std::string name,
            const std::vector<std::string>& columns,
            const std::vector<std::string>& may_be_missing = {})
      : file_(std::move(name)), in_(std::move(in)) {
    if (!cut_line(header_)) refuse("is empty", "a header line");
    if (header_.front().starts_with(byte_order_mark))
      header_.front().erase(0, byte_order_mark.size());
    const auto find = [&](const std::string& column) {
      const auto at = std::find(header_.begin(), header_.end(), column);
      if (at == header_.end()) return absent;
      if (std::find(at + 1, header_.end(), column) != header_.end())
        refuse("has column " + column + " twice", "each once");
      return static_cast<std::size_t>(at - header_.begin());
    };
    for (const std::string& column : columns) {
      columns_.push_back(find(column));
      if (columns_.back() == absent) refuse("has no column " + column, all_of(columns));
    }
    for (const std::string& column : may_be_missing) columns_.push_back(find(column));
  }
  csv_table(const std::filesystem::path& file, const std::vector<std::string>& columns,
            const std::vector<std::string>& may_be_missing = {})
      : csv_table(opened(file), file.string(), columns, may_be_missing) {}

  /// Reads the next line. Returns false at the end.
  [[nodiscard]] bool next() {
    do {
      if (!cut_line(fields_)) return false;
    } while (fields_.size() == 1 && fields_[0].empty());
    if (fields_.size() != header_.size())
      refuse(std::to_string(fields_.size()) + " fields", std::to_string(header_.size()));
    return true;
  }

  /// All columns of the file, in its order.
  [[nodiscard]] const std::vector<std::string>& header() const noexcept { return header_; }

  // Fields of the current line ----------------------------------------------------------------

  /// All of them, by the columns of header().
  [[nodiscard]] const std::vector<std::string>& fields() const noexcept { return fields_; }
  /// Whether the file has an optional column.
  [[nodiscard]] bool has(std::size_t column) const {
    return column < columns_.size() && columns_[column] != absent;
  }
  [[nodiscard]] const std::string& text(std::size_t column) const {
    const std::string& s = fields_[columns_[column]];
    if (s.empty()) refuse("an empty field", "a name");
    if (std::any_of(s.begin(), s.end(), is_control)) refuse(shown(s), "a name one can print");
    return s;
  }
  [[nodiscard]] std::uint32_t count(std::size_t column, std::uint32_t least = 1) const {
    std::uint32_t n = 0;
    const std::string& s = fields_[columns_[column]];
    if (!whole(s, n) || n < least) refuse(shown(s), "a whole number from " + std::to_string(least));
    return n;
  }
  /// Microseconds above 0, at most 1e12 (eleven days): sums of such times fit duration.
  [[nodiscard]] double us(std::size_t column) const {
    constexpr double most = 1e12;
    double n = 0;
    const std::string& s = fields_[columns_[column]];
    if (!whole(s, n) || !(n > 0 && n <= most))
      refuse(shown(s), "microseconds above 0, at most " + plain(most));
    return n;
  }
  [[nodiscard]] double number(std::size_t column, double least, double most) const {
    double n = 0;
    const std::string& s = fields_[columns_[column]];
    if (!whole(s, n) || !(n >= least && n <= most))
      refuse(shown(s), "a number from " + plain(least) + " to " + plain(most));
    return n;
  }

  /// Throws an error about the current line.
  [[noreturn]] void refuse(const std::string& wrong, const std::string& expected) const {
    throw error(errc::bad_profile, file_ + ":" + std::to_string(std::max(line_, 1)) + ": " + wrong +
                                       ", expected " + expected);
  }

private:
  static constexpr std::size_t absent = ~std::size_t{0};
  static constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

  [[nodiscard]] static std::unique_ptr<std::istream> opened(const std::filesystem::path& file) {
    std::error_code ignored;
    if (std::filesystem::is_directory(file, ignored))
      throw error(errc::io, file.string() + ": is a directory, expected a CSV file");
    auto in = std::make_unique<std::ifstream>(file, std::ios::binary);
    if (!*in) throw error(errc::io, file.string() + ": cannot be opened, expected a CSV file");
    return in;
  }

  [[nodiscard]] bool cut_line(std::vector<std::string>& fields) {
    std::string line;
    if (!std::getline(*in_, line)) return false;
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

  template <class T>
  [[nodiscard]] static bool whole(const std::string& s, T& n) {
    const auto [stop, ec] = std::from_chars(s.data(), s.data() + s.size(), n);
    return ec == std::errc{} && stop == s.data() + s.size();
  }
  [[nodiscard]] static std::string shown(std::string s) {
    s.resize(std::min<std::size_t>(s.size(), 60));
    std::replace_if(s.begin(), s.end(), is_control, '?');
    return "'" + s + "'";
  }
  [[nodiscard]] static std::string plain(double n) {
    std::array<char, 32> text;
    return {text.data(), std::to_chars(text.data(), text.data() + text.size(), n).ptr};
  }
  [[nodiscard]] static bool is_control(char c) noexcept {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
  }
  [[nodiscard]] static std::string all_of(const std::vector<std::string>& columns) {
    std::string s;
    for (const std::string& c : columns) s += (s.empty() ? "" : ",") + c;
    return s;
  }

  std::string file_;
  std::unique_ptr<std::istream> in_;
  int line_ = 0;
  std::vector<std::size_t> columns_;
  std::vector<std::string> header_, fields_;
};

} // namespace gsched

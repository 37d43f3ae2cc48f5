// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace parts {

/// A CSV file with a header and neither quotes nor commas within a field. Columns are found by
/// their names, so their order is free, and there may be others.
///
/// Errors   gsched::error: io; bad_profile with file and line for what cannot be read.
class csv_table {
public:
  /// In what follows, a column is a place in `columns`, then in `may_be_missing`.
  csv_table(const std::filesystem::path& file, const std::vector<std::string>& columns,
            const std::vector<std::string>& may_be_missing = {});

  /// False at the end.
  [[nodiscard]] bool next();

  [[nodiscard]] bool has(std::size_t column) const { return columns_[column] != absent; }
  [[nodiscard]] const std::string& text(std::size_t column) const;
  [[nodiscard]] std::uint32_t count(std::size_t column, std::uint32_t least = 1) const;
  [[nodiscard]] double us(std::size_t column) const;

private:
  static constexpr std::size_t absent = ~std::size_t{0};

  [[nodiscard]] bool cut_line(std::vector<std::string>& fields);
  [[noreturn]] void refuse(const std::string& wrong, const std::string& expected) const;

  std::string file_;
  std::ifstream in_;
  int line_ = 0;
  std::size_t width_ = 0;
  std::vector<std::size_t> columns_;
  std::vector<std::string> fields_;
};

} // namespace parts

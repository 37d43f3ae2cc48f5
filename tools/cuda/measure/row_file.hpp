// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace measure {

/// A CSV file that grows row by row. Rows that it had before are kept, so that an interrupted run
/// can go on. Fields have neither commas nor quotes.
///
/// Errors   gsched::error, one line: bad_profile for a file with other columns or a damaged row; io
///          if it cannot be read. run_error (io) if it cannot be written.
/// Threads  one owner.
class row_file {
public:
  using row = std::vector<std::string>;

  /// Reads the file, if there is one. The first `keys` columns name a row. A last line without an
  /// end is one whose writing was interrupted: it is removed. A file without some or all
  /// of the last `newer` columns goes on without them.
  row_file(std::filesystem::path file, row columns, std::size_t keys, std::size_t newer = 0);

  [[nodiscard]] bool has(const row& key) const { return keys_.contains(key); }
  /// Whether all rows of a key are there, which are so many. Another number is of a write that was
  /// interrupted: these rows are removed.
  [[nodiscard]] bool has_all(const row& key, std::size_t rows);
  [[nodiscard]] std::size_t size() const noexcept { return keys_.size(); }
  /// Appends rows of all columns in one write, after which they are in the file.
  void add(std::vector<row> rows);

private:
  void read();
  void remove(const row& key);
  [[nodiscard]] row key_of(const row& fields) const;

  std::filesystem::path file_;
  row columns_;
  std::size_t count_of_keys_;
  std::size_t newer_;
  std::map<row, std::size_t> keys_; ///< with their numbers of rows
  bool has_header_ = false;
};

/// Microseconds with three digits.
[[nodiscard]] std::string us_text(double us);

} // namespace measure

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/report/latency.hpp"

#include <iosfwd>
#include <span>
#include <string>
#include <vector>

namespace common {

enum class best { none, least, most };

/// One value a row, NaN for none. The best value of the eligible rows is marked, if they differ.
struct column {
  std::string head;
  std::vector<double> values; ///< one a row
  best wanted = best::none;
  std::string format = "{:.0f}";
};

/// Columns of latencies in milliseconds, with digits that suit the smallest.
[[nodiscard]] std::vector<column> latency_columns(std::span<const latency_summary> of);

/// Rows with their names, under a head; bold on a terminal.
void print(std::ostream& out, const std::string& head, std::span<const std::string> names,
           const std::vector<column>& columns, const std::vector<bool>& eligible, bool terminal);

} // namespace common

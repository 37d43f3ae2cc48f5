// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/latency.hpp"

#include <iosfwd>
#include <span>
#include <string>
#include <vector>

namespace common {

enum class best { none, least, most };

/// One value a row, NaN for none. The best of the eligible rows is marked, if one is wanted and
/// they differ.
struct column {
  std::string head;
  std::vector<double> values; ///< one a run
  best wanted = best::none;
  std::string format = "{:.0f}";
};

/// The latencies of sets of requests, as digits that suit the smallest of them.
[[nodiscard]] std::vector<column> latency_columns(std::span<const latency_summary> of);

/// Rows with their names, under a head; bold on a terminal.
void print(std::ostream& out, const std::string& head, std::span<const std::string> names,
           const std::vector<column>& columns, const std::vector<bool>& eligible, bool terminal);

} // namespace common

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <iosfwd>
#include <string>
#include <vector>

namespace sim_accuracy {

/// One time, measured and simulated.
struct comparison {
  std::string where; ///< model, batch, SMs, neighbour
  std::string kind;  ///< rows of a kind share a summary
  double measured_us = 0;
  double simulated_us = 0;

  [[nodiscard]] double error() const noexcept { return simulated_us / measured_us - 1; }
};

struct outcome {
  std::string what; ///< graph, partition or corun
  std::vector<comparison> rows;
  std::size_t without_profile = 0; ///< rows of the table that were left out
  bool list = false;               ///< print every row, not only the kinds
};

/// A table of median, 90th percentile and worst error by kind, on stdout.
void print(const outcome& o);

void write_json(std::ostream& to, const outcome& o, bool ignore_scaling, bool ignore_replays);

} // namespace sim_accuracy

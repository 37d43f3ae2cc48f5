// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstddef>
#include <vector>

namespace measure {

/// Adjacent groups of the SMs of a GPU, [first, last).
struct group_range {
  std::size_t first = 0;
  std::size_t last = 0;
  auto operator<=>(const group_range&) const noexcept = default;
};

/// SMs that one of several graphs may use, by the place of the graph.
using split = std::vector<group_range>;

/// The splits of a GPU of so many groups for a pair: a quarter, a half and three quarters of the
/// groups for the first graph, the rest for the second, and all of them for both. Fewer where the
/// GPU has too few groups.
[[nodiscard]] std::vector<split> splits_for_two(std::size_t groups);
/// Groups in equal parts, as far as possible, for n graphs; empty if there are too few.
[[nodiscard]] split equal_split(std::size_t groups, std::size_t n);
/// All groups for each of n graphs.
[[nodiscard]] split shared_split(std::size_t groups, std::size_t n);

} // namespace measure

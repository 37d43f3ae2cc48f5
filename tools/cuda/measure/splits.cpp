// SPDX-License-Identifier: Apache-2.0
#include "measure/splits.hpp"

#include <algorithm>

namespace measure {

split shared_split(std::size_t groups, std::size_t n) { return split(n, {0, groups}); }

split equal_split(std::size_t groups, std::size_t n) {
  split s;
  if (n == 0 || groups < n) return s;
  for (std::size_t i = 0; i < n; ++i) s.push_back({groups * i / n, groups * (i + 1) / n});
  return s;
}

std::vector<split> splits_for_two(std::size_t groups) {
  std::vector<split> all;
  for (const std::size_t quarters : {std::size_t{2}, std::size_t{1}, std::size_t{3}}) {
    const std::size_t at = groups * quarters / 4;
    split s{{0, at}, {at, groups}};
    if (at > 0 && std::find(all.begin(), all.end(), s) == all.end()) all.push_back(std::move(s));
  }
  all.push_back(shared_split(groups, 2));
  return all;
}

} // namespace measure

// SPDX-License-Identifier: Apache-2.0
#include "measure/schedule.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace measure {

std::vector<company> pairs_of(std::span<const std::size_t> instances, std::mt19937_64& random) {
  std::vector<company> all;
  for (std::size_t a = 0; a < instances.size(); ++a)
    for (std::size_t b = a; b < instances.size(); ++b)
      if (a != b || instances[a] > 1) all.push_back({{{a, 0}, {b, a == b ? 1u : 0u}}});
  std::shuffle(all.begin(), all.end(), random);
  return all;
}

std::vector<company> pairs_with(std::vector<company> pairs, std::span<const std::size_t> graphs) {
  std::erase_if(pairs, [&](const company& c) {
    return std::none_of(c.members.begin(), c.members.end(), [&](const company::member& m) {
      return std::find(graphs.begin(), graphs.end(), m.graph) != graphs.end();
    });
  });
  return pairs;
}

std::vector<company> groups_of(std::span<const std::size_t> instances, std::size_t wanted,
                               std::span<const std::size_t> sizes, std::mt19937_64& random) {
  std::vector<company::member> all_of_them;
  for (std::size_t g = 0; g < instances.size(); ++g)
    for (std::size_t i = 0; i < instances[g]; ++i) all_of_them.push_back({g, i});
  std::vector<company> all;
  std::set<std::vector<std::size_t>> seen;
  for (std::size_t i = 0; i < wanted; ++i) {
    const std::size_t n = sizes[i % sizes.size()];
    if (all_of_them.size() < n) continue;
    std::shuffle(all_of_them.begin(), all_of_them.end(), random);
    company c;
    c.members.assign(all_of_them.begin(), all_of_them.begin() + static_cast<std::ptrdiff_t>(n));
    std::sort(c.members.begin(), c.members.end(), [](const auto& a, const auto& b) {
      return std::pair(a.graph, a.instance) < std::pair(b.graph, b.instance);
    });
    std::vector<std::size_t> graphs;
    for (const company::member& m : c.members) graphs.push_back(m.graph);
    if (seen.insert(std::move(graphs)).second) all.push_back(std::move(c));
  }
  return all;
}

std::vector<company> interleaved(std::vector<company> pairs, std::vector<company> groups) {
  std::vector<company> all;
  std::size_t next = 0;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    for (; next < groups.size() && (next + 1) * pairs.size() <= i * (groups.size() + 1); ++next)
      all.push_back(std::move(groups[next]));
    all.push_back(std::move(pairs[i]));
  }
  for (; next < groups.size(); ++next) all.push_back(std::move(groups[next]));
  return all;
}

} // namespace measure

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/detail/search/candidates.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace gsched::detail {

/// What partitions use of all GPUs together: for each kind of GPU the regular groups and the groups
/// with a remainder, and the places where the partitions of a GPU are limited in number.
struct group_usage {
  static constexpr std::size_t most_kinds = 4;
  static constexpr std::size_t places = 2 * most_kinds; ///< an index
  static constexpr std::size_t sorts = places + 1;
  std::array<std::uint32_t, sorts> of{}; ///< [2k]: regular groups of kind k; [2k + 1]: remainders

  bool operator==(const group_usage&) const noexcept = default;
  /// The usage of one candidate.
  [[nodiscard]] static group_usage by(const candidate& p) noexcept {
    group_usage t;
    t.of[2 * p.kind] = p.regular;
    t.of[2 * p.kind + 1] = p.remainder ? 1u : 0u;
    t.of[places] = p.places;
    return t;
  }
  [[nodiscard]] bool within(const group_usage& all) const noexcept {
    for (std::size_t s = 0; s < sorts; ++s)
      if (of[s] > all.of[s]) return false;
    return true;
  }
  group_usage& operator+=(const group_usage& t) noexcept {
    for (std::size_t s = 0; s < sorts; ++s) of[s] += t.of[s];
    return *this;
  }
  group_usage& operator-=(const group_usage& t) noexcept {
    for (std::size_t s = 0; s < sorts; ++s) of[s] -= t.of[s];
    return *this;
  }
};

/// All groups and places of the GPUs of the first most_kinds kinds.
[[nodiscard]] inline group_usage all_of(const candidate_table& choices) noexcept {
  group_usage all;
  for (std::size_t k = 0; k < std::min(choices.kinds().size(), group_usage::most_kinds); ++k) {
    const auto gpus = static_cast<std::uint32_t>(choices.kinds()[k].gpus.size());
    all.of[2 * k] = gpus * choices.kinds()[k].regular;
    all.of[2 * k + 1] = choices.kinds()[k].has_remainder ? gpus : 0u;
    all.of[group_usage::places] += gpus * choices.places();
  }
  return all;
}

} // namespace gsched::detail

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace gsched {

/// Blocks that share one notification: the last of a group to start (or end) reports for all.
///
/// Source   Paella, SOSP 2023, doi:10.1145/3600006.3613163, section 5.2 and figure 6.
inline constexpr std::uint32_t max_group_blocks = 16;

/// Notifications of one kernel of that many blocks for its starts; as many again for its ends.
[[nodiscard]] constexpr std::uint64_t groups_of(std::uint64_t blocks) noexcept {
  return blocks / max_group_blocks + (blocks % max_group_blocks != 0 ? 1 : 0);
}

/// What the host expects of one kernel in all: a start and an end of each group.
[[nodiscard]] constexpr std::uint64_t words_of(std::uint64_t blocks) noexcept {
  return 2 * groups_of(blocks);
}

/// What a block does that is the `count`-th of its kernel to start (or to end), counted from 1 by
/// an atomic add: how many blocks it reports, or zero where a later block reports for it. All
/// groups are full but the last, so nothing is reported twice and nothing is left over.
[[nodiscard]] constexpr std::uint32_t reports(std::uint64_t count, std::uint64_t blocks) noexcept {
  const auto in_group = static_cast<std::uint32_t>((count - 1) % max_group_blocks) + 1;
  return in_group == max_group_blocks || count == blocks ? in_group : 0;
}

/// The group of the `count`-th block, from zero.
[[nodiscard]] constexpr std::uint64_t group_of(std::uint64_t count) noexcept {
  return (count - 1) / max_group_blocks;
}

/// Blocks in a group, from zero, of a kernel of that many blocks.
[[nodiscard]] constexpr std::uint32_t group_size(std::uint64_t group,
                                                 std::uint64_t blocks) noexcept {
  if (group >= groups_of(blocks)) return 0;
  const std::uint64_t left = blocks - group * max_group_blocks;
  return left < max_group_blocks ? static_cast<std::uint32_t>(left) : max_group_blocks;
}

} // namespace gsched

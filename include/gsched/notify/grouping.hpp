// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace gsched {

/// Largest number of blocks that share one notification: the last block of a group to start, or to
/// end, reports for the group.
///
/// Source   Paella, SOSP 2023, doi:10.1145/3600006.3613163, section 5.2 and figure 6.
inline constexpr std::uint32_t max_group_blocks = 16;

/// The number of groups of a kernel of this many blocks. Each group reports its start and its end.
[[nodiscard]] constexpr std::uint64_t groups_of(std::uint64_t blocks) noexcept {
  return blocks / max_group_blocks + (blocks % max_group_blocks != 0 ? 1 : 0);
}

/// The number of words that a kernel of this many blocks writes: a start and an end for each group.
[[nodiscard]] constexpr std::uint64_t words_of(std::uint64_t blocks) noexcept {
  return 2 * groups_of(blocks);
}

/// How many blocks the `count`-th block of a kernel to start (or to end) reports, or zero if a
/// later block reports for it. `count` begins at 1 and comes from an atomic add. All groups but the
/// last are full, so each block is reported exactly once.
[[nodiscard]] constexpr std::uint32_t reports(std::uint64_t count, std::uint64_t blocks) noexcept {
  const auto in_group = static_cast<std::uint32_t>((count - 1) % max_group_blocks) + 1;
  return in_group == max_group_blocks || count == blocks ? in_group : 0;
}

/// The group of the `count`-th block; groups are numbered from zero.
[[nodiscard]] constexpr std::uint64_t group_of(std::uint64_t count) noexcept {
  return (count - 1) / max_group_blocks;
}

/// The number of blocks in a group of a kernel of this many blocks.
[[nodiscard]] constexpr std::uint32_t group_size(std::uint64_t group,
                                                 std::uint64_t blocks) noexcept {
  if (group >= groups_of(blocks)) return 0;
  const std::uint64_t left = blocks - group * max_group_blocks;
  return left < max_group_blocks ? static_cast<std::uint32_t>(left) : max_group_blocks;
}

} // namespace gsched

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/notify/grouping.hpp>

#include <cassert>
#include <cstdint>
#include <optional>

namespace gsched {

enum class notification_type : std::uint8_t {
  none = 0, ///< no notification
  blocks_started = 1,
  blocks_ended = 2,
};

/// The report of a group of blocks of one kernel. `sm` is the SM of the group's last block.
struct notification {
  notification_type type = notification_type::none;
  std::uint8_t blocks = 0; ///< size of the group, 1 to max_group_blocks
  std::uint16_t sm = 0;    ///< below word_layout::sm_limit
  /// identifies the launch; the host does not reuse it while the kernel is in flight
  std::uint32_t instance = 0;
  bool operator==(const notification&) const noexcept = default;
};

/// The layout of a notification in the 64-bit word that the GPU writes with one store, lowest bits
/// first.
///
/// Source   Paella, SOSP 2023, doi:10.1145/3600006.3613163, section 5.2.
/// Differs  12 bits for the SM, because virtual SM numbers of today's GPUs exceed the paper's 256.
///          The number of blocks and the lap of the ring (ring.hpp) are added.
struct word_layout {
  static constexpr unsigned instance_bits = 32;
  static constexpr unsigned sm_bits = 12;
  static constexpr unsigned blocks_bits = 4; ///< holds blocks - 1
  static constexpr unsigned type_bits = 2;
  static constexpr unsigned lap_bits = 14;

  static constexpr unsigned sm_at = instance_bits;
  static constexpr unsigned blocks_at = sm_at + sm_bits;
  static constexpr unsigned type_at = blocks_at + blocks_bits;
  static constexpr unsigned lap_at = type_at + type_bits;

  static constexpr std::uint32_t sm_limit = 1u << sm_bits;
  static constexpr std::uint32_t lap_mask = (1u << lap_bits) - 1;

  static constexpr std::uint64_t field(std::uint64_t word, unsigned at, unsigned bits) noexcept {
    return (word >> at) & ((std::uint64_t{1} << bits) - 1);
  }
};

static_assert(word_layout::lap_at + word_layout::lap_bits == 64);
static_assert(max_group_blocks == 1u << word_layout::blocks_bits);

/// The value of a slot that was never written.
inline constexpr std::uint64_t nothing_here = 0;

/// The word of a valid notification, with lap 0.
[[nodiscard]] constexpr std::uint64_t pack(const notification& n) noexcept {
  assert(n.type == notification_type::blocks_started || n.type == notification_type::blocks_ended);
  assert(n.blocks >= 1 && n.blocks <= max_group_blocks && n.sm < word_layout::sm_limit);
  return std::uint64_t{n.instance} | std::uint64_t{n.sm} << word_layout::sm_at |
         std::uint64_t{n.blocks - 1u} << word_layout::blocks_at |
         static_cast<std::uint64_t>(n.type) << word_layout::type_at;
}

/// The notification in a word, whatever its lap; none if pack() does not produce that word.
[[nodiscard]] constexpr std::optional<notification> unpack(std::uint64_t word) noexcept {
  using l = word_layout;
  const std::uint64_t type = l::field(word, l::type_at, l::type_bits);
  if (type != static_cast<std::uint64_t>(notification_type::blocks_started) &&
      type != static_cast<std::uint64_t>(notification_type::blocks_ended))
    return std::nullopt;
  notification n;
  n.type = static_cast<notification_type>(type);
  n.blocks = static_cast<std::uint8_t>(l::field(word, l::blocks_at, l::blocks_bits) + 1);
  n.sm = static_cast<std::uint16_t>(l::field(word, l::sm_at, l::sm_bits));
  n.instance = static_cast<std::uint32_t>(word);
  return n;
}

[[nodiscard]] constexpr std::uint32_t lap_of(std::uint64_t word) noexcept {
  return static_cast<std::uint32_t>(word >> word_layout::lap_at);
}

[[nodiscard]] constexpr std::uint64_t with_lap(std::uint64_t word, std::uint64_t lap) noexcept {
  constexpr std::uint64_t below = (std::uint64_t{1} << word_layout::lap_at) - 1;
  return (word & below) | lap << word_layout::lap_at;
}

// Device code builds the same bits: a change here changes the protocol.
static_assert(pack({notification_type::blocks_started, 16, 131, 0xdeadbeef}) ==
              0x0001'f083'dead'beef);
static_assert(with_lap(pack({notification_type::blocks_ended, 1, 4095, 1}), 0x3fff) ==
              0xfffe'0fff'0000'0001);
static_assert(!unpack(nothing_here) && lap_of(nothing_here) == 0);

} // namespace gsched

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/notify/grouping.hpp>
#include <gsched/notify/word.hpp>

#include <cuda_runtime_api.h> // __host__, __device__

#include <cstdint>
#include <initializer_list>

namespace gsched::cuda {

/// The counters of one launch, in device memory. The upper half of each word is the launch's
/// instance as in notifications, the lower half a number of blocks. Between launches the numbers
/// are zero and the instance is that of the next launch; the last block to end sets both
/// (block_reports.hpp).
struct alignas(64) launch_counters {
  std::uint64_t started;
  alignas(32) std::uint64_t ended; // in another sector: L2 processes sectors independently
  /// Started blocks whose word has a ticket. A word of its own: sharing one with `ended`, which one
  /// trip to L2 would read, is slower (bench/cuda/instrumentation).
  std::uint64_t claimed;
};

static_assert(sizeof(launch_counters) == 64);

/// The lowest bits of an instance distinguish the launches of one slot.
inline constexpr unsigned replay_bits = 12;

/// The instance of the slot's next launch.
[[nodiscard]] __host__ __device__ constexpr std::uint32_t
next_instance(std::uint32_t instance) noexcept {
  constexpr std::uint32_t replays = (1u << replay_bits) - 1;
  return (instance & ~replays) | ((instance + 1) & replays);
}

/// The largest instrumented grid, in blocks: the range in which place_in_group is exact.
inline constexpr std::uint32_t max_reporting_blocks = 1u << 28;

/// The factor for place_in_group; 0 for groups of one block.
[[nodiscard]] constexpr std::uint32_t reciprocal_of(std::uint32_t group) noexcept {
  return group < 2 ? 0 : 0xffff'ffffu / group + 1;
}

/// before % group, for 2 <= group <= max_group_blocks, with one multiplication in place of a
/// division. The reciprocal is too large by less than group / 2^32, which changes no result below
/// 2^32 / group.
[[nodiscard]] __host__ __device__ constexpr std::uint32_t
place_in_group(std::uint32_t before, std::uint32_t reciprocal, std::uint32_t group) noexcept {
  return before - static_cast<std::uint32_t>((std::uint64_t{before} * reciprocal) >> 32) * group;
}

/// The upper half of a word without its lap. `further`: the blocks that the word covers besides the
/// reporting one. The lower half is the instance.
[[nodiscard]] __host__ __device__ constexpr std::uint32_t
upper_half(notification_type type, std::uint32_t further, std::uint32_t sm) noexcept {
  return (sm & (word_layout::sm_limit - 1)) | further << (word_layout::blocks_at - 32) |
         static_cast<std::uint32_t>(type) << (word_layout::type_at - 32);
}

/// Adds the lap of a ticket; `laps` is ticket / slots, modulo 2^32.
[[nodiscard]] __host__ __device__ constexpr std::uint32_t with_laps(std::uint32_t upper,
                                                                    std::uint32_t laps) noexcept {
  return upper + (laps << (word_layout::lap_at - 32)) + (1u << (word_layout::lap_at - 32));
}

// The bits match notify/word.hpp, and the groups match notify/grouping.hpp.
static_assert([] {
  for (const std::uint32_t blocks : {1u, 7u, 16u})
    for (const std::uint32_t sm : {0u, 131u, 256u, word_layout::sm_limit - 1})
      for (const std::uint64_t laps :
           {0ull, 1ull, 0x3ffeull, 0x3fffull, 0x4000ull, 0x1'0000'0005ull})
        for (const auto type :
             {notification_type::blocks_started, notification_type::blocks_ended}) {
          const notification n{type, static_cast<std::uint8_t>(blocks),
                               static_cast<std::uint16_t>(sm), 0xdeadbeef};
          const std::uint64_t upper =
              with_laps(upper_half(type, blocks - 1, sm), static_cast<std::uint32_t>(laps));
          if ((upper << 32 | n.instance) != with_lap(pack(n), laps + 1)) return false;
        }
  return true;
}());
static_assert([] {
  for (std::uint32_t group = 2; group <= max_group_blocks; ++group)
    for (std::uint32_t i = 0; i < 500; ++i)
      for (const std::uint32_t before : {i, i * 104729, max_reporting_blocks - 1 - i})
        if (place_in_group(before, reciprocal_of(group), group) != before % group) return false;
  return true;
}());
static_assert([] {
  constexpr std::uint32_t g = max_group_blocks;
  for (std::uint32_t blocks = 1; blocks < 50; ++blocks)
    for (std::uint32_t before = 0; before < blocks; ++before) {
      const std::uint32_t place = place_in_group(before, reciprocal_of(g), g);
      if ((place + 1 == g || before + 1 == blocks ? place + 1 : 0) != reports(before + 1, blocks))
        return false;
    }
  return true;
}());

} // namespace gsched::cuda

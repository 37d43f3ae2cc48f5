// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/occupancy/segment_table.hpp>

#include <cstdint>

namespace gsched {

/// A record's place in the queue of segments of one lane: the slots of its neighbours. A Record of
/// segment_table that is queued has one as its member `queue`.
struct segment_queue {
  static constexpr std::uint32_t none = 0xffffffffu; ///< segment_table's
  std::uint32_t before = none;                       ///< it runs after that one
  std::uint32_t after = none;                        ///< that one runs after it
};

/// Puts a slot's segment behind another one. False, with nothing changed, where one is behind that
/// already. O(1).
template <class Record>
[[nodiscard]] bool queue_behind(segment_table<Record>& all, std::uint32_t slot,
                                std::uint32_t before) noexcept {
  static_assert(segment_queue::none == segment_table<Record>::none);
  if (all[before].queue.after != segment_queue::none) return false;
  all[slot].queue.before = before;
  all[before].queue.after = slot;
  return true;
}

/// Takes a slot's segment out; its neighbours become each other's. The one that was behind it, or
/// none. O(1).
template <class Record>
std::uint32_t leave_queue(segment_table<Record>& all, std::uint32_t slot) noexcept {
  const segment_queue was = all[slot].queue;
  all[slot].queue = {};
  if (was.before != segment_queue::none) all[was.before].queue.after = was.after;
  if (was.after != segment_queue::none) all[was.after].queue.before = was.before;
  return was.after;
}

} // namespace gsched

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/occupancy/detail/segment_table.hpp>

#include <cstdint>

namespace gsched {

/// The neighbours of a record in the queue of its lane, by slot. A record of segment_table that is
/// queued has one as its member `queue`.
struct segment_queue {
  static constexpr std::uint32_t none = 0xffffffffu; ///< as segment_table
  std::uint32_t before = none;                       ///< it runs after that segment
  std::uint32_t after = none;                        ///< that segment runs after it
};

/// Queues the segment of a slot behind another one. Returns false and changes nothing if that one
/// already has a successor. O(1).
template <class Record>
[[nodiscard]] bool queue_behind(segment_table<Record>& all, std::uint32_t slot,
                                std::uint32_t before) noexcept {
  static_assert(segment_queue::none == segment_table<Record>::none);
  if (all[before].queue.after != segment_queue::none) return false;
  all[slot].queue.before = before;
  all[before].queue.after = slot;
  return true;
}

/// Removes the segment of a slot from its queue and links its neighbours. Returns the slot behind
/// it, or none. O(1).
template <class Record>
std::uint32_t leave_queue(segment_table<Record>& all, std::uint32_t slot) noexcept {
  const segment_queue was = all[slot].queue;
  all[slot].queue = {};
  if (was.before != segment_queue::none) all[was.before].queue.after = was.after;
  if (was.after != segment_queue::none) all[was.after].queue.before = was.before;
  return was.after;
}

} // namespace gsched

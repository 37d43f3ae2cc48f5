// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/id.hpp>
#include <gsched/core/time.hpp>
#include <gsched/device/device.hpp>
#include <gsched/sim/detail/sm_map.hpp>
#include <gsched/sim/detail/untouched.hpp>
#include <gsched/sim/detail/work_cost.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace gsched::sim {

/// A segment that a device has accepted.
struct accepted {
  segment_id id{};
  job_id owner{};
  std::span<const operation* const> operations{};
  const work_cost* costs = nullptr; ///< one an operation; null: to be worked out
  program_id program = no_program;  ///< with `first`: where its operations come from
  std::uint32_t first = 0;
  time_point arrival{};    ///< of its first operation at the hardware queue
  duration step{};         ///< and of each further one
  std::size_t reports = 0; ///< block events that are still kept free for it
  std::uint32_t lane = 0;
  std::uint32_t issued = 0; ///< operations that have left the queue
  std::uint32_t queue_next = 0, queue_previous = 0;
  std::uint32_t lane_previous = 0; ///< the one submitted to its lane before it
  submission how = submission::graph;
  bool instrumented = false;
  bool leaves = false; ///< all of its operations do, and the device can tell what is left of them
  bool gated = false;  ///< it has gates
  bool waits = false;  ///< the host keeps it until its lane lets it be handed over
  /// The first operation of which blocks have left; those behind it only pass.
  std::uint32_t left_from = not_left;

  static constexpr std::uint32_t not_left = 0xffffffffu;
};

/// Segments in the order in which they came; each is in one list at most.
struct segment_list {
  std::uint32_t head = 0xffffffffu;
  std::uint32_t tail = 0xffffffffu;

  [[nodiscard]] bool empty() const noexcept { return head == 0xffffffffu; }
};

/// A lane: where its operations go, and how far it is.
struct lane_state {
  std::uint32_t queue = 0;
  int priority = 0;
  sm_range where{};
  std::uint32_t width = 0;                 ///< by which program_costs knows its size
  bool busy = false;                       ///< one of its operations has left its queue
  time_point last_end = time_point::min(); ///< of an operation
  duration extra{};                        ///< of the gap behind it, by contention
  std::uint32_t current = 0xffffffffu;     ///< the segment whose operation runs
  std::uint32_t newest = 0xffffffffu;      ///< segment, if any is outstanding
  std::uint32_t outstanding = 0;

  // Of lanes that yield: see yielding. What is handed over is in the lane's hardware queue.
  bool yields = false;
  segment_list waiting{};                      ///< not handed over ...
  std::uint32_t waiters = 0;                   ///< ... so many
  std::uint32_t gated = 0;                     ///< handed over, with gates, and not ended ...
  std::uint32_t leaving = 0;                   ///< ... or such that leave
  time_point gated_seen = time_point::min();   ///< the host sees that the last of them has ended
  time_point leaving_seen = time_point::min(); ///< these as well
  bool yielding = false;                       ///< from the call of yield to that of resume
  bool stopped = false;                     ///< what runs of it has been told: nothing more starts
  bool rests = false;                       ///< lane_yielded has been told: nothing of it runs
  bool flagged = false;                     ///< told by the flag, which is set
  bool resuming = false;                    ///< what had been held has not started again
  std::uint32_t grid = 0xffffffffu;         ///< that runs for `current`, if that is no copy
  std::uint32_t held = 0xffffffffu;         ///< segment that stays until the lane resumes
  std::uint32_t going = 0;                  ///< segments handed over when it stopped, and not over
  time_point stops = time_point::max();     ///< when it will be told
  time_point quiet = time_point::max();     ///< when the last of it will have left
  time_point goes_on = time_point::min();   ///< nothing of it starts before
  time_point lowered = time_point::min();   ///< the flag is down again
  time_point last_told = time_point::min(); ///< when the host sees what it was told last
};

/// A first-in-first-out queue of the hardware. Only its head is looked at: one that waits for its
/// lane blocks all behind it.
struct hardware_queue : segment_list {
  time_point look = time_point::max(); ///< when the head may be able to start
  bool stalled = false;                ///< the head waits for a kernel to end, whichever
};

/// All accepted segments, and the queues in which they wait.
///
/// Cost     O(1) a call; no allocation after construction but for queues.
/// Threads  one owner; no locking.
class submissions {
public:
  static constexpr std::uint32_t none = 0xffffffffu;

  submissions(std::size_t capacity, std::size_t queues)
      : capacity_(static_cast<std::uint32_t>(capacity)), slots_(capacity), queues_(queues) {}

  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  [[nodiscard]] accepted& operator[](std::uint32_t slot) noexcept { return slots_[slot]; }
  [[nodiscard]] std::vector<hardware_queue>& queues() noexcept { return queues_; }

  /// To be assigned before it is read. Only while fewer than capacity() are taken.
  [[nodiscard]] std::uint32_t take() noexcept {
    if (free_ == none) return fresh_++;
    const std::uint32_t slot = free_;
    free_ = slots_[slot].queue_next;
    return slot;
  }
  void give(std::uint32_t slot) noexcept {
    slots_[slot].queue_next = free_;
    free_ = slot;
  }

  void append(segment_list& q, std::uint32_t slot) noexcept {
    slots_[slot].queue_next = none;
    slots_[slot].queue_previous = q.tail;
    (q.tail == none ? q.head : slots_[q.tail].queue_next) = slot;
    q.tail = slot;
  }
  void remove(segment_list& q, std::uint32_t slot) noexcept {
    const accepted& a = slots_[slot];
    (a.queue_previous == none ? q.head : slots_[a.queue_previous].queue_next) = a.queue_next;
    (a.queue_next == none ? q.tail : slots_[a.queue_next].queue_previous) = a.queue_previous;
  }

private:
  std::uint32_t capacity_;
  untouched<accepted> slots_;
  std::vector<hardware_queue> queues_;
  std::uint32_t free_ = none;
  std::uint32_t fresh_ = 0; ///< from here on none has been taken yet
};

} // namespace gsched::sim

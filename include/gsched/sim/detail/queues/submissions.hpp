// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/id.hpp>
#include <gsched/core/time.hpp>
#include <gsched/device/device.hpp>
#include <gsched/sim/detail/blocks/sm_map.hpp>
#include <gsched/sim/detail/laws/work_cost.hpp>
#include <gsched/sim/detail/uninitialised.hpp>

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
  const work_cost* costs = nullptr; ///< one an operation; null: to be computed
  program_id program = no_program;  ///< with `first`, the origin of its operations
  std::uint32_t first = 0;
  time_point arrival{};    ///< of its first operation at the hardware queue
  duration step{};         ///< additional, for each further operation
  duration gap{};          ///< between its operations, in a graph
  std::size_t reports = 0; ///< block events that are still reserved for it
  std::uint32_t lane = 0;
  std::uint32_t issued = 0; ///< operations that have left the queue
  std::uint32_t queue_next = 0, queue_previous = 0;
  std::uint32_t lane_previous = 0; ///< the segment submitted to its lane before it
  submission how = submission::graph;
  bool instrumented = false;
  bool preemptible =
      /// all of its operations are preemptible, and the device can tell what remains of them
      false;
  bool gated = false; ///< it has gates
  bool waits = false; ///< the host has not submitted it to the hardware
  /// The first operation with preempted blocks; the operations behind it run through.
  std::uint32_t left_from = not_left;

  static constexpr std::uint32_t not_left = 0xffffffffu;
};

/// Segments in the order of their arrival; each is in at most one list.
struct segment_list {
  std::uint32_t head = 0xffffffffu;
  std::uint32_t tail = 0xffffffffu;

  [[nodiscard]] bool empty() const noexcept { return head == 0xffffffffu; }
};

/// The state of a lane.
struct lane_state {
  std::uint32_t queue = 0;
  int priority = 0;
  sm_range where{};
  std::uint32_t width = 0;                 ///< its size, as an index of program_costs
  bool shares = false;                     ///< another lane has some of its SMs
  bool busy = false;                       ///< one of its operations has left its queue
  time_point last_end = time_point::min(); ///< of an operation
  duration extra{};                        ///< addition to the gap behind it, by contention
  std::uint32_t current = 0xffffffffu;     ///< the segment whose operation runs
  std::uint32_t newest = 0xffffffffu;      ///< the newest outstanding segment
  std::uint32_t outstanding = 0;

  // For lanes that yield: see yielding. Segments submitted to the hardware are in the lane's
  // hardware queue.
  bool yields = false;
  segment_list waiting{};        ///< segments that are not submitted to the hardware
  std::uint32_t waiters = 0;     ///< their number
  std::uint32_t gated = 0;       ///< in the hardware, with gates, and not ended
  std::uint32_t preemptible = 0; ///< in the hardware, preemptible, and not ended
  /// when the host sees that the last gated segment has ended
  time_point gated_seen = time_point::min();
  /// when the host sees that the last preemptible segment has ended
  time_point preemptible_seen = time_point::min();
  bool yielding = false; ///< from the call of yield to that of resume
  bool stopped = false;  ///< its running work has seen the request: nothing more starts
  bool rests = false;    ///< lane_yielded was reported: nothing of it runs
  bool flagged = false;  ///< the flag is set
  bool resuming = false; ///< held work has not started again
  /// grid of the running operation of `current`, if that is no copy
  std::uint32_t grid = 0xffffffffu;
  std::uint32_t held = 0xffffffffu;     ///< the segment that stays until the lane resumes
  std::uint32_t going = 0;              ///< segments in the hardware when it stopped, and not over
  time_point stops = time_point::max(); ///< when its work will see the request
  time_point quiet = time_point::max(); ///< when the last of its work will have ended
  time_point goes_on = time_point::min();   ///< nothing of it starts before
  time_point lowered = time_point::min();   ///< when the flag is clear again
  time_point last_told = time_point::min(); ///< when the host sees its last event
};

/// A FIFO queue of the hardware. Only its head is considered: a head that waits for its lane blocks
/// all segments behind it.
struct hardware_queue : segment_list {
  time_point look = time_point::max(); ///< when the head may be able to start
  bool stalled = false;                ///< the head waits for any kernel to end
};

/// All accepted segments, and the queues in which they wait.
///
/// Cost     O(1) a call; only new queues allocate.
/// Threads  one owner; no locking.
class submissions {
public:
  static constexpr std::uint32_t none = 0xffffffffu;

  submissions(std::size_t capacity, std::size_t queues)
      : capacity_(static_cast<std::uint32_t>(capacity)), slots_(capacity), queues_(queues) {}

  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  [[nodiscard]] accepted& operator[](std::uint32_t slot) noexcept { return slots_[slot]; }
  [[nodiscard]] std::vector<hardware_queue>& queues() noexcept { return queues_; }

  /// The result is to be assigned before it is read. Requires fewer than capacity() taken slots.
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
  uninitialised<accepted> slots_;
  std::vector<hardware_queue> queues_;
  std::uint32_t free_ = none;
  std::uint32_t fresh_ = 0; ///< slots from here on were never taken
};

} // namespace gsched::sim

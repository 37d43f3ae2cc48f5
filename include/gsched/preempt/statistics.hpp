// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/trace/histogram.hpp>

#include <cstdint>

namespace gsched {

/// The number of times that something began, and its duration each time it was seen to end.
struct timed_count {
  std::uint64_t count = 0;
  trace::histogram latency{};
};

/// Counters of a dispatcher's isolation between the classes, since its construction. Times are host
/// time: when the dispatcher received the events.
struct preemption_statistics {
  /// Best-effort work was in flight when real-time work arrived. Latency: from the decision until
  /// none of it runs any more. On a device that cannot yield this is the end of that work, and it
  /// is not counted if the real-time work ended before.
  timed_count preemptions;
  /// Best-effort lanes were released. Latency: until work that had stayed on one of them runs
  /// again; not counted if all of it was preempted, because it then starts like new work.
  timed_count restores;
  std::uint64_t preempted_segments = 0; ///< preempted before they ended
  std::uint64_t undone_operations = 0;  ///< of these segments, to be dispatched again
  std::uint64_t evicted_segments = 0;   ///< evicted because real-time work arrived
  std::uint64_t side_segments = 0;      ///< run beside real-time work, on a partition
  std::uint64_t reserved_segments = 0;  ///< best-effort segments that left SMs to real-time work
  std::uint64_t padded_segments = 0;    ///< real-time segments that carried best-effort work
  std::uint64_t carried_operations = 0; ///< best-effort operations in these
  duration carried{};                   ///< time alone of those operations, of ended segments
  duration padded_alone{};              ///< time alone of the real-time work in these segments
  duration padded_took{};               ///< measured time of these segments
  std::uint64_t starvations = 0;        ///< waits of at least preemption_options::starved_after
  duration longest_wait{};  ///< longest time with best-effort jobs of which nothing was released
  duration time_withheld{}; ///< time in which best-effort lanes had to stay empty
};

} // namespace gsched

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/trace/histogram.hpp>

#include <cstdint>

namespace gsched {

/// How often something was begun, and how long it took each time it was seen to be over.
struct timed_count {
  std::uint64_t count = 0;
  trace::histogram latency{};
};

/// What a dispatcher has done to keep best-effort work out of the way of real-time work, since it
/// was made. Times are of the host: what it was told when.
struct preemption_statistics {
  /// Best-effort work was in flight when real-time work came. Latency: from the decision until
  /// nothing of it runs any more. On a device that cannot yield that is its end, and none is
  /// counted where the real-time work was over before.
  timed_count preemptions;
  /// Best-effort lanes were let on. Latency: until work that had stayed on one of them runs again;
  /// none where all of it had left, for then it begins as new work does.
  timed_count restores;
  std::uint64_t preempted_segments = 0; ///< that left before they ended
  std::uint64_t undone_operations = 0;  ///< of these: dispatched again later
  std::uint64_t evicted_segments = 0;   ///< taken back because real-time work came
  std::uint64_t side_segments = 0;      ///< run beside real-time work, on a partition
  std::uint64_t reserved_segments = 0;  ///< best-effort ones that left SMs to real-time work
  std::uint64_t padded_segments = 0;    ///< of real-time work that carried some best-effort work
  std::uint64_t carried_operations = 0; ///< best-effort ones, in these
  duration carried{};                   ///< what those take alone, of segments that have ended ...
  duration padded_alone{};              ///< ... and what the real-time work takes alone ...
  duration padded_took{};               ///< ... and what it took
  std::uint64_t starvations = 0;        ///< waits of preemption_options::starved_after and longer
  duration longest_wait{};              ///< with best-effort jobs, of which nothing was let on
  duration time_withheld{};             ///< in which best-effort lanes were to stay empty
};

} // namespace gsched

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/dispatch/statistics.hpp>
#include <gsched/preempt/statistics.hpp>

#include <cstdint>

namespace gsched {

/// What a server has counted since it was opened.
/// Invariant: requests.submitted = active + finished + rejected + cancelled + failed; requests that
/// ended before the dispatcher had them are counted.
struct server_statistics {
  dispatch_statistics requests{};
  preemption_statistics preemption{};
  lane_statistics use{};
  duration up_time{};       ///< of the device, since it was opened
  duration host_time{};     ///< the server's thread at work, sleep and waits excluded
  std::uint64_t sleeps = 0; ///< of the server's thread: each costs the next request a wake-up

  // Of the device; 0 where it does not count them.
  std::uint32_t sms = 0;
  duration kernel_time{}; ///< total time in which some kernel ran
  double sm_seconds = 0;  ///< the same, summed over the SMs that held blocks
  std::uint64_t graph_launches = 0;
  std::uint64_t built_late = 0; ///< graphs that were built when they were first needed
  std::uint64_t driver_ns = 0;  ///< in driver calls, if that is measured
  std::uint64_t expired_leases = 0;
  std::uint64_t opened = 0;            ///< gates, by the host
  std::uint64_t found_to_need_sms = 0; ///< graphs that need all SMs at once
  bool hangs = false;                  ///< a kernel does
};

/// What a server has to do now. A snapshot of counters that change one by one.
struct server_load {
  std::uint64_t active = 0;  ///< requests that the dispatcher has taken up and that have not ended
  std::uint64_t waiting = 0; ///< of these, requests of which nothing was submitted to the device
  /// Device time of these requests, by estimates, that was not submitted to the device yet.
  duration queued{};
  bool failed = false; ///< the device has; nothing more is served
};

} // namespace gsched

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/job/job.hpp>

#include <cstdint>

namespace gsched {

/// What a corun_rule has done, since the construction of a dispatcher. All zero without one.
struct neighbour_statistics {
  std::uint64_t refused = 0; ///< picks of the policy that did not fit beside the jobs in flight
  std::uint64_t claims = 0;  ///< models for which others were held back after most_wait
  /// real-time jobs that were submitted beside a model that the rule keeps apart from theirs
  std::uint64_t overridden = 0;
  /// models in flight, counted for each job at its first segment, of which the rule does not know
  /// how they and the job slow each other
  std::uint64_t unknown = 0;
  duration waited{};       ///< from the first refusal of a job to its next segment, over all jobs
  duration longest_wait{}; ///< of these
};

/// The counters of a dispatcher since its construction.
///
/// Invariant: submitted = active + finished + rejected + cancelled + failed, whenever a member
/// function of the dispatcher returns.
struct dispatch_statistics {
  std::uint64_t submitted = 0;
  std::uint64_t active = 0;
  std::uint64_t finished = 0;
  std::uint64_t rejected = 0;   ///< refused before their body started
  std::uint64_t over_limit = 0; ///< of these, because max_jobs were active
  std::uint64_t cancelled = 0;
  std::uint64_t failed = 0; ///< the body threw, or the device reported a failure

  std::uint64_t decisions = 0;  ///< successful picks
  std::uint64_t segments = 0;   ///< submitted to the device
  std::uint64_t operations = 0; ///< ended on the device
  std::uint64_t host_calls = 0;
  std::uint64_t evicted_segments = 0;
  std::uint64_t lost_segments = 0;  ///< not reported within their limit
  std::uint64_t unknown_events = 0; ///< device events for no in-flight segment: a bug of the device
  neighbour_statistics neighbours{};

  void count_submit() noexcept {
    ++submitted;
    ++active;
  }
  void count_end(job_state how) noexcept {
    --active;
    switch (how) {
    case job_state::finished: ++finished; return;
    case job_state::rejected: ++rejected; return;
    case job_state::cancelled: ++cancelled; return;
    default: ++failed; return;
    }
  }

  [[nodiscard]] std::uint64_t ended() const noexcept {
    return finished + rejected + cancelled + failed;
  }
};

/// How much of the lanes of a dispatcher is in use, as the host sees it: a lane has work from the
/// submission of a segment until the end of the last one is seen.
struct lane_statistics {
  std::uint32_t lanes = 0; ///< that were opened
  std::uint32_t lanes_in_use = 0;
  duration busy{};      ///< total time in which some lane had work
  duration lane_time{}; ///< the same, summed over the lanes
};

} // namespace gsched

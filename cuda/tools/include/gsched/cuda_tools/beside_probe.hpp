// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>
#include <gsched/cuda_tools/probe.hpp>
#include <gsched/cuda_tools/replay_times.hpp>

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace gsched::cuda {

/// Which SMs a graph and a probe beside it get.
struct probe_split {
  sm_count victim{}; ///< at least so many, rounded up to whole groups; 0: both share all SMs
  sm_count probe{};  ///< at most so many of the rest; 0: all of the rest
};

/// How many of the first groups have so many SMs together, or else all of them.
/// @param sms     that they must have; 0: no group
/// @param groups  the SMs of each group
[[nodiscard]] inline std::size_t groups_for(sm_count sms,
                                            std::span<const std::uint32_t> groups) noexcept {
  std::size_t n = 0;
  for (std::uint32_t has = 0; n < groups.size() && has < sms.count(); ++n) has += groups[n];
  return n;
}

struct beside_options {
  int gpu = 0;
  int turns = 5;       ///< alone and beside the probe in turn, so often
  double turn_ms = 20; ///< of replays in each
  double limit_s =
      1; ///< the probe ends by itself after that, or 8 times the replays of a turn alone
  double each_replay_us = 0; ///< above 0: a new probe of that length before each replay
  int together = 0;          ///< so often, start the graph and a finite probe of its length at once
  std::function<void()> progressed{}; ///< as in replay_options
};

/// A graph beside a probe.
struct beside_result {
  replay_times alone; ///< on the same SMs
  replay_times beside;
  double probe_rate_alone = 0;  ///< rounds a microsecond of all blocks
  double probe_rate_beside = 0; ///< 0 with each_replay_us
  sm_count victim_sms{};
  sm_count probe_sms{}; ///< on which the probe may run
  /// On which blocks of the graph's partition were seen, none of the probe's among them; 0: shared
  /// SMs.
  std::uint32_t victim_sms_seen = 0;
  double together_us = 0; ///< both at once, until both have ended: median
  double in_turn_us = 0;  ///< one after the other: the sum of the medians alone
  /// The probe left no room for the graph, which waited until the probe had ended by itself; the
  /// times beside the probe then say nothing but that.
  bool held_up = false;
  probe::result last{}; ///< of the probe in the last turn
  double victim_slowdown() const noexcept { return beside.median / alone.median; }
};

/// Errors   device_failed if the blocks of a probe that has so many SMs ran on another number of
///          them than sms_of_blocks says.
void check_sms(const probe_options& how, sm_count sms, const probe::result& ran);

/// Replays a graph alone and beside a probe, in turns.
///
/// Source   Elvinger et al., SoCC 2025, sections 4.1 to 4.4, doi:10.1145/3772052.3772270.
/// Errors   as probe, partition, check_sms, and, where the graph has SMs of its own, sm_numbers and
///          check_apart; device_failed with CUDA's message, or if no block of the probe starts.
/// Cost     about 2 x turns x turn_ms, and at least four replays a turn.
/// Threads  one at a time. The GPU should be idle.
[[nodiscard]] beside_result measure_beside(CUgraph victim, const probe_options& how,
                                           const probe_split& split, const beside_options& options);

} // namespace gsched::cuda

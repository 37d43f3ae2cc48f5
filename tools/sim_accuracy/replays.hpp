// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sim_accuracy/input.hpp"

#include <gsched/core/quantity.hpp>
#include <gsched/job/profile.hpp>
#include <gsched/sim/preset.hpp>

#include <utility>

namespace sim_accuracy {

/// One replay of a profile as one graph, alone on the device, on so many SMs; zero: on all.
/// Units    microseconds, and the SMs that the device gave.
struct solo_time {
  double us = 0;
  gsched::sm_count sms{};
};
[[nodiscard]] solo_time replay_alone(const gsched::sim::preset& device, const gsched::profile& p,
                                     gsched::sm_count sms = {});

/// Two graphs replayed back to back beside each other, for at least 15 ms: the median of the
/// replays of each, in microseconds, without the gap between one and the next. Zero SMs: the lane
/// shares all of them.
/// Errors   gsched::error: too_small for partitions that the device has no room for.
[[nodiscard]] std::pair<double, double>
replay_beside(const gsched::sim::preset& device, const gsched::profile& a, gsched::sm_count a_sms,
              const gsched::profile& b, gsched::sm_count b_sms);

} // namespace sim_accuracy

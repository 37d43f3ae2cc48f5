// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sim_accuracy/input.hpp"

#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/job/profile.hpp>
#include <gsched/sim/contention.hpp>
#include <gsched/sim/scaling.hpp>

#include <cstdint>
#include <vector>

namespace sim_accuracy {

/// One operation as the laws see it on any partition.
struct scaled_operation {
  const gsched::operation* work = nullptr;
  std::uint32_t blocks_per_sm = 1;
  gsched::sim::scaling_table table;
};

/// A profile made ready to be run on any number of SMs.
struct scaled_graph {
  gsched::sm_count device{};
  std::vector<scaled_operation> operations;
  std::vector<gsched::operation> without_points; ///< owns what `work` names if scaling is ignored

  scaled_graph(const gsched::profile& p, bool ignore_scaling);
  scaled_graph(const scaled_graph&) = delete; // its operations point into it
  scaled_graph& operator=(const scaled_graph&) = delete;
};

/// A partition as green contexts give it: groups of `unit` SMs, the last with the rest, so that
/// more than all but that group's is the whole device.
[[nodiscard]] gsched::sm_count granted(std::uint32_t sms, gsched::sm_count device,
                                       std::uint32_t unit);

/// One replay of the graph alone on a partition.
[[nodiscard]] gsched::duration replay(const scaled_graph& g, gsched::sm_count sms);

/// Median replay times of two graphs that are replayed back to back beside each other: on
/// partitions of their own, or sharing the device if both have all of it. Blocks are placed by the
/// leftover policy on the SMs as one pool; rates are those of the contention law.
struct pair_times {
  double us[2] = {};
};
[[nodiscard]] pair_times run_pair(const scaled_graph& a, gsched::sm_count a_sms,
                                  const scaled_graph& b, gsched::sm_count b_sms);

} // namespace sim_accuracy

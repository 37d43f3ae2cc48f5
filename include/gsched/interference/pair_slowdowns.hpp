// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/interference/coefficients.hpp>
#include <gsched/interference/corun_slowdowns.hpp>
#include <gsched/interference/kernel_chain.hpp>

#include <array>
#include <vector>

namespace gsched {

/// How much two graphs that share all SMs slow each other: of a beside b, and of b beside a. What
/// corun_rule::predicted asks for.
///
/// Source   as corun_slowdowns.
/// Units    ratios of the latency of a replay, at least 1.
/// Errors   none; a chain of kernels without counters is slowed by a lack of space on the SMs
///          alone, and slows others by that, so look at has_counters(profile) before.
/// Cost     that of corun_slowdowns: 60 to 210 ms. For set-up.
/// Threads  a pure function.
[[nodiscard]] inline std::array<double, 2> pair_slowdowns(const kernel_chain& a,
                                                          const kernel_chain& b,
                                                          const interference_coefficients& c,
                                                          const replay_window& window = {}) {
  const std::array<corunner, 2> both{corunner{&a, 0}, corunner{&b, 0}};
  const std::vector<double> slow = corun_slowdowns(both, c.contention, c.replay, window);
  return {slow[0], slow[1]};
}

} // namespace gsched

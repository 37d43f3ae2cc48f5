// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/interference/coefficients.hpp>
#include <gsched/interference/contention_law.hpp>
#include <gsched/interference/demand.hpp>
#include <gsched/interference/solo_metrics.hpp>

namespace gsched {

/// The slow-down of a graph beside others on SMs of their own, by the law of contention for its
/// mean use and the sum of theirs: the quick estimate, without kernels.
///
/// Differs  from corun_slowdowns: peaks and pauses of the graphs are not seen.
/// Order    at least 1; never falls with a use of a neighbour.
/// Cost     that of the law; no allocation.
/// Threads  a pure function.
[[nodiscard]] inline double mean_slowdown(const interference_coefficients& c, const mean_use& own,
                                          const mean_use& others) noexcept {
  demand d;
  d.of(resource::l2) = own.l2;
  d.of(resource::dram) = own.dram;
  d.kept = own.kept;
  surroundings s;
  s.sum[index(resource::l2)] = others.l2;
  s.sum[index(resource::dram)] = others.dram;
  return c.contention.slowdown(d, 0, s) + c.replay.gap_us * own.starts +
         c.replay.start_us * others.starts;
}

} // namespace gsched

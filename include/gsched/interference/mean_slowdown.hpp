// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/interference/coefficients.hpp>
#include <gsched/interference/contention_law.hpp>
#include <gsched/interference/demand.hpp>
#include <gsched/interference/kernel_chain.hpp>
#include <gsched/interference/replay_law.hpp>
#include <gsched/interference/solo_metrics.hpp>
#include <gsched/interference/surroundings.hpp>

#include <algorithm>
#include <cmath>

namespace gsched {

/// Replaces what counters of a whole graph say of its kernels by what its chain says: their number
/// and blocks, and how busy they keep their SMs.
inline void use_kernels(mean_use& use, const kernel_chain& chain) noexcept {
  const double whole = chain.replay_us();
  use.starts = use.exposed = 0;
  for (const chain_kernel& k : chain.kernels) {
    use.starts += replay_law::starts(k.blocks) / whole;
    use.exposed += replay_law::exposed(k.takes.busiest()) * k.us / whole;
  }
}

/// The slow-down of a graph beside others on SMs of their own, by the law of contention for its
/// mean use and the sum of theirs: the quick estimate, without kernels. A graph uses a memory in
/// phases, at 60% of L2's throughput and 70% of DRAM's, so the mean of the square of its use is
/// that part of its mean. The neighbours are slowed as much as the graph, so their use falls by
/// that. `others` is the sum of what the neighbours take, each as_neighbour().
///
/// Differs  from corun_slowdowns: the graphs' phases are not known, only that they have some, nor
///          whether they use tensor cores. The pressure of a neighbour counts in its throughput
///          too.
/// Source   the throughput in a phase was chosen with six measured sets of pairs in view.
/// Order    at least 1; never falls with a use of a neighbour.
/// Cost     twice that of the law; no allocation.
/// Threads  a pure function.
[[nodiscard]] inline double mean_slowdown(const interference_coefficients& c, const mean_use& own,
                                          const mean_use& others) noexcept {
  constexpr double l2_phase = 0.6, dram_phase = 0.7;
  const double gaps = c.replay.gap(others.l2) * own.starts;
  const double starts = own.exposed * c.replay.start_us * others.starts;
  demand d;
  d.of(resource::l2) = own.l2;
  d.of(resource::dram) = own.dram;
  d.kept = own.kept;
  surroundings s;
  s.sum[index(resource::l2)] = others.l2;
  s.sum[index(resource::dram)] = others.dram;
  s.l2_squares = l2_phase * others.l2;
  s.dram_squares = dram_phase * others.dram;
  const double at_full_pace = c.contention.slowdown(d, 0, s) + gaps + starts;
  s.l2_squares = s.dram_squares = 0;
  const double least = c.contention.slowdown(d, 0, s); // no more throughput than there is
  // x = 1 + (at_full_pace - 1) / x
  const double slow = std::max(least, (1 + std::sqrt(1 + 4 * std::max(0.0, at_full_pace - 1))) / 2);
  return own.factors.slowed(slow) + own.lost.beside(others.dram);
}

} // namespace gsched

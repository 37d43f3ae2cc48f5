// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/interference/demand.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace gsched {

/// What a kernel meets on its SMs and on the device: the demands of the kernels beside it.
struct surroundings {
  std::array<double, resources> sum{};            ///< of all neighbours
  std::array<double, resources_on_sm> older{};    ///< of those that started before it
  std::array<double, resources_on_sm> greatest{}; ///< the largest of these
  double warps = 0;        ///< resident beside its blocks, on each of its SMs
  double conflict = 1;     ///< the largest of a neighbour that shares its SMs
  double working_sets = 0; ///< bytes, of all neighbours
  double hits = 0;         ///< L2 throughput that would go to DRAM if the working sets did not fit
  bool sets_known = true;  ///< each neighbour's working set is known

  /// Adds a neighbour. `near` is the part of the kernel's SMs that it shares, `far` the part of the
  /// neighbour's traffic that reaches L2 and DRAM.
  void add(const demand& d, double near, double far, double resident_warps,
           bool is_older) noexcept {
    if (near > 0) {
      for (std::size_t r = 0; r < resources_on_sm; ++r) {
        const double taken = d.use[r] * near;
        sum[r] += taken;
        if (!is_older) continue;
        older[r] += taken;
        greatest[r] = std::max(greatest[r], taken);
      }
      warps += resident_warps * near;
      conflict = std::max(conflict, d.conflict);
    }
    for (std::size_t r = resources_on_sm; r < resources; ++r) sum[r] += d.use[r] * far;
    if (d.of(resource::l2) * far > 0) {
      working_sets += d.working_set;
      sets_known &= d.working_set > 0;
      hits += d.kept * d.of(resource::l2) * far;
    }
  }
};

/// How much longer a kernel takes beside others: the one law of contention, for kernels on the same
/// SMs and on SMs of their own.
///
/// A kernel's time is the 8-norm of its own time and of its time at each resource, where neighbours
/// add their demand: nearly the sum of demands once that exceeds the capacity, and nearly nothing
/// before. On an SM that an older kernel nearly fills, warps of the older kernel go first. A
/// neighbour's traffic makes accesses to L2 and DRAM slower, and where the working sets are known to
/// exceed L2, hits become misses. A kernel whose time is that of DRAM loses little by having fewer
/// blocks, or warps of others beside them.
///
/// Source   the resources and effects of Elvinger et al., SoCC 2025, sections 4.3 and 4.4,
///          doi:10.1145/3772052.3772270. dram_latency and warps are fitted (`interference
///          fit`); the others are from probes of one H200 (bench/cuda/interference): l2_latency from
///          traffic that stays in L2, dram from what a copy reaches alone, l2 from copies side by
///          side, older from two fp64 kernels.
/// Units    pure numbers, except l2_bytes.
/// Order    the slow-down is at least 1, is 1 alone with all blocks, and never falls with a demand
///          of a neighbour. With all blocks and no warps beside them it never falls with a demand of
///          its own either, unless that makes the kernel one that others wait for. The throughput
///          of all never exceeds a capacity.
/// Cost     some 100 multiplications and four roots; no allocation.
/// Threads  a pure function.
struct contention_law {
  static constexpr std::size_t size = 6;
  static constexpr double warps_to_fill = 7;   ///< as in scaling_law of sim/: on kernels alone
  static constexpr double l2_over_dram = 2.15; ///< capacities in bytes a second, of an H200
  static constexpr double l2_bytes = 60.0 * 1024 * 1024; ///< of an H200

  double l2_latency = 0.2;   ///< relative slow-down beside all of L2's throughput
  double dram_latency = 0.5; ///< additional one beside all of DRAM's
  double warps = 0.2;        ///< weight of a neighbour's warp on an SM, over an own warp
  double l2 = 1.15;          ///< part of L2's counted throughput that can be reached
  double dram = 0.82;        ///< the same of DRAM
  double older = 0.95;       ///< 0: full SMs are shared by demand; 1: the older kernel goes first

  bool operator==(const contention_law&) const noexcept = default;

  /// All coefficients, in the order of the fields; `of` is the inverse.
  [[nodiscard]] constexpr std::array<double, size> values() const noexcept {
    return {l2_latency, dram_latency, warps, l2, dram, older};
  }
  [[nodiscard]] static constexpr contention_law of(const std::array<double, size>& v) noexcept {
    contention_law law;
    law.l2_latency = v[0];
    law.dram_latency = v[1];
    law.warps = v[2];
    law.l2 = v[3];
    law.dram = v[4];
    law.older = v[5];
    return law;
  }

  /// The time of a kernel that has `placed` of the blocks that it would have alone, above 0 to 1,
  /// and `own_warps` on each of its SMs, over its time alone.
  [[nodiscard]] double slowdown(const demand& own, double placed, double own_warps,
                                const surroundings& s) const noexcept {
    const double l2_use = own.of(resource::l2);
    const double l2_others = s.sum[index(resource::l2)];
    double dram_others = s.sum[index(resource::dram)];
    double displaced = 0; // hits that become accesses to DRAM
    if (own.working_set > 0 && s.working_sets > 0 && s.sets_known) {
      const double part = lost(own.working_set + s.working_sets) * l2_over_dram;
      displaced = part * own.kept * l2_use;
      dram_others += part * s.hits;
    }
    const double latency =
        l2_latency * std::min(1.0, l2_others) + dram_latency * std::min(1.0, dram_others);
    const double slower = 1 + latency * touched(l2_use);
    const double crowded =
        (1 + warps * s.warps / (own_warps + warps_to_fill)) / placed; // what its SMs lack
    const double dram_use = own.of(resource::dram);
    const double bound = bound_by_dram(dram_use);
    double sum = to_8th(slower) * (bound + (1 - bound) * to_8th(crowded));
    for (std::size_t r = 0; r < resources_on_sm; ++r)
      if (s.sum[r] > 0 && own.use[r] > 0)
        sum += in_turns(r) ? to_8th(own.use[r] + s.sum[r]) - to_8th(own.use[r])
                           : on_sm(own.use[r], s.sum[r], s.older[r], s.greatest[r]);
    sum += waiting_for_banks(own, s);
    sum += over_limit(l2_use, l2_use, l2_others, l2);
    sum += over_limit(dram_use, dram_use + displaced, dram_others, dram);
    return std::sqrt(std::sqrt(std::sqrt(sum)));
  }

  /// The part of their hits that kernels lose whose working sets have this size in total.
  [[nodiscard]] static double lost(double working_sets) noexcept {
    constexpr double cliff = 0.25; // of the capacity
    return std::clamp((working_sets / l2_bytes - 1) / cliff, 0.0, 1.0);
  }

private:
  [[nodiscard]] static double to_8th(double x) noexcept {
    const double squared = x * x;
    const double to_4th = squared * squared;
    return to_4th * to_4th;
  }

  /// The part of a kernel that takes as long with fewer blocks, as it waits for DRAM.
  [[nodiscard]] double bound_by_dram(double use) const noexcept {
    constexpr double most = 0.95;
    const double part = use / std::max(dram, 0.01);
    return std::min(most, part * part);
  }

  /// How far a kernel with this use of a memory depends on it: nearly all or nothing.
  [[nodiscard]] static double touched(double use) noexcept {
    constexpr double little = 0.002;
    return use / (use + little);
  }

  /// What L2 or DRAM adds to the 8th power of the time; `now` is the use beside the others.
  [[nodiscard]] static double over_limit(double alone, double now, double others,
                                         double limit) noexcept {
    const double part = 1 / std::max(limit, 0.01);
    return (to_8th(part * (now + others)) - to_8th(part * alone)) * touched(now);
  }

  /// Whether an SM serves accesses to this resource in turns, older and younger kernels alike.
  [[nodiscard]] static constexpr bool in_turns(std::size_t r) noexcept {
    return r == index(resource::lsu) || r == index(resource::shared_memory) ||
           r == index(resource::l1);
  }

  /// What the issue slots or a pipeline of an SM add to the 8th power of the time. `before` is the
  /// demand of older kernels, `greatest` that of one of them.
  [[nodiscard]] double on_sm(double own, double others, double before,
                             double greatest) const noexcept {
    const double all = own + others;
    if (!(all > 1)) return to_8th(all) - to_8th(own);
    constexpr double begin = 0.75, full = 0.95; // demand from which the older goes first
    constexpr double least = 0.005;             // of its demand, that any kernel still gets
    const bool is_oldest = !(before > 0);
    const double demand_of_first = is_oldest ? own : greatest;
    const double first = older * std::clamp((demand_of_first - begin) / (full - begin), 0.0, 1.0);
    const double fair = own / all;
    const double rest = is_oldest ? std::min(1.0, own) : std::min(fair, std::max(0.0, 1 - before));
    const double share = std::max(least * own, (1 - first) * fair + first * rest);
    return std::max(0.0, to_8th(own / share) - to_8th(own));
  }

  /// Accesses to shared memory take turns, so one with many bank conflicts delays each other one.
  [[nodiscard]] double waiting_for_banks(const demand& own, const surroundings& s) const noexcept {
    const double use = own.of(resource::shared_memory);
    const double others = s.sum[index(resource::shared_memory)];
    if (!(s.conflict > own.conflict) || !(others > 0)) return 0;
    double time = use * (1 + others * s.conflict / own.conflict);
    if (others < 1) time = std::min(time, use / (1 - others));
    return std::max(0.0, to_8th(time) - to_8th(use + others));
  }
};

} // namespace gsched

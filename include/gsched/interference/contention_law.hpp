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
  static constexpr double steady = 0.6; ///< mean square of steady traffic, over that of bursts

  std::array<double, resources> sum{};            ///< of all neighbours
  std::array<double, resources_on_sm> older{};    ///< of those that started before it
  std::array<double, resources_on_sm> greatest{}; ///< the largest of these
  double warps = 0;        ///< resident beside its blocks, on each of its SMs
  double conflict = 1;     ///< the largest of a neighbour that shares its SMs
  double l2_squares = 0;   ///< sum of the squares of each neighbour's use of L2, less where steady
  double dram_squares = 0; ///< the same of DRAM
  double working_sets = 0; ///< bytes, of all neighbours
  double hits = 0;         ///< L2 throughput that would go to DRAM if the working sets did not fit
  bool sets_known = true;  ///< each neighbour's working set is known
  bool low_clock = false;  ///< a neighbour lowers the SM clock, see demand

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
    const double of_square = (d.steady ? steady : 1) * far * far;
    l2_squares += d.of(resource::l2) * d.of(resource::l2) * of_square;
    dram_squares += d.of(resource::dram) * d.of(resource::dram) * of_square;
    low_clock |= d.low_clock && far > 0;
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
/// neighbour's traffic makes accesses to L2 and DRAM slower, in proportion to its square. Each
/// neighbour has bursts of its own, so the squares of several neighbours add up; the traffic of an
/// endless probe has none, and the mean of its square is smaller. Where the working
/// sets are known to exceed L2, hits become misses: they take longer, and are traffic to DRAM.
/// Tensor cores of a neighbour lower the clock. A kernel whose time is that of DRAM loses little by
/// that, or by warps of others beside its own.
///
/// Source   the resources and effects of Elvinger et al., SoCC 2025, sections 4.3 and 4.4,
///          doi:10.1145/3772052.3772270. l2_latency and dram_latency are fitted
///          (`interference fit`), warps was chosen on pairs of five networks, and what steady traffic
///          counts on networks beside copies; the others are from
///          probes of one H200 (bench/cuda/interference): dram from what a copy reaches alone, l2
///          from copies side by side, older from two fp64 kernels, clock from one block of matrix
///          products beside a chain of additions, miss and cliff from copies of more and more bytes
///          alone (256 threads a block in bench/results/gpu/interference_figure3: the rate falls from
///          36.3 within L2 to 17.5 at 1.27 times its size and 16.0 beyond).
/// Units    pure numbers, except l2_bytes.
/// Order    the slow-down is at least 1, is 1 alone, and never falls with a demand of a neighbour.
///          Without warps beside its own, or a low clock, it never falls with a demand of its own
///          either, unless that makes the kernel one that others wait for. The throughput of all
///          never exceeds a capacity.
/// Cost     some 100 multiplications and three roots; no allocation. For one kernel in many
///          surroundings, prepare() takes a third of that once, and the roots of several kernels can
///          be drawn side by side.
/// Threads  a pure function.
struct contention_law {
  static constexpr std::size_t size = 7;
  static constexpr double warps_to_fill = 7; ///< as in scaling_law of sim/: on kernels alone
  static constexpr double full_from = 0.75; ///< use of an SM from which the older kernel goes first
  static constexpr double l2_over_dram = 2.15; ///< capacities in bytes a second, of an H200
  static constexpr double l2_bytes = 60.0 * 1024 * 1024; ///< of an H200
  static constexpr double miss = 1.27; ///< time of a miss beyond that of a hit, over the latter
  static constexpr double cliff =
      0.32; ///< over L2's size: beyond it, up to where all hits are lost

  double l2_latency = 0.3;   ///< relative slow-down beside all of L2's throughput
  double dram_latency = 0.6; ///< additional one beside all of DRAM's
  double warps = 0.2;        ///< weight of a neighbour's warp on an SM, over an own warp
  double l2 = 1.15;          ///< part of L2's counted throughput that can be reached
  double dram = 0.82;        ///< the same of DRAM
  double older = 0.95;       ///< 0: full SMs are shared by demand; 1: the older kernel goes first
  double clock = 0.09;       ///< relative slow-down beside tensor cores, without own ones

  bool operator==(const contention_law&) const noexcept = default;

  /// All coefficients, in the order of the fields; `of` is the inverse.
  [[nodiscard]] constexpr std::array<double, size> values() const noexcept {
    return {l2_latency, dram_latency, warps, l2, dram, older, clock};
  }
  [[nodiscard]] static constexpr contention_law of(const std::array<double, size>& v) noexcept {
    contention_law law;
    law.l2_latency = v[0];
    law.dram_latency = v[1];
    law.warps = v[2];
    law.l2 = v[3];
    law.dram = v[4];
    law.older = v[5];
    law.clock = v[6];
    return law;
  }

  /// A kernel, with what the law computes from it before it knows its surroundings. Set `takes`,
  /// then call prepare().
  struct kernel {
    demand takes{};
    std::array<double, resources_on_sm> alone{}; ///< 8th powers of its use of an SM
    std::array<double, resources_on_sm> uses{};  ///< 1 where it has any, or else 0
    double warps = warps_to_fill; ///< warps beside its blocks are compared with these
    double bound = 0;             ///< see bound_by_memory
    double on_l2 = 0;             ///< how far it depends on L2, and on DRAM: see touched
    double on_dram = 0;
    double l2_part = 1; ///< over a use of L2: of what can be reached, instead of what is counted
    double dram_part = 1;
    double l2_alone = 0; ///< 8th powers of its uses, by these
    double dram_alone = 0;
  };

  /// Derives the rest of a kernel that has `own_warps` on each of its SMs.
  void prepare(kernel& k, double own_warps) const noexcept {
    const double l2_use = k.takes.of(resource::l2);
    const double dram_use = k.takes.of(resource::dram);
    for (std::size_t r = 0; r < resources_on_sm; ++r) k.alone[r] = to_8th(k.takes.use[r]);
    for (std::size_t r = 0; r < resources_on_sm; ++r) k.uses[r] = k.takes.use[r] > 0 ? 1.0 : 0.0;
    k.warps = own_warps + warps_to_fill;
    k.bound = bound_by_memory(0, dram_use);
    k.on_l2 = touched(l2_use);
    k.on_dram = touched(dram_use);
    k.l2_part = 1 / std::max(l2, 0.01);
    k.dram_part = 1 / std::max(dram, 0.01);
    k.l2_alone = to_8th(k.l2_part * l2_use);
    k.dram_alone = to_8th(k.dram_part * dram_use);
  }

  /// Whether the kernel and its neighbours ask issue slots or a pipeline of an SM for more than it
  /// has. If not, it makes no difference which of them started first: power() reads neither s.older
  /// nor s.greatest.
  [[nodiscard]] static bool fills_sm(const kernel& own, const surroundings& s) noexcept {
    bool full = false;
    for (std::size_t r = 0; r < resources_on_sm; ++r)
      full |= own.takes.use[r] + s.sum[r] > 1 && !in_turns(r);
    return full;
  }

  /// The 8th power of the slow-down of a kernel; root_8th gives the slow-down.
  [[nodiscard]] double power(const kernel& own, const surroundings& s) const noexcept {
    const double l2_use = own.takes.of(resource::l2);
    const double l2_others = s.sum[index(resource::l2)];
    double dram_use = own.takes.of(resource::dram);
    double dram_others = s.sum[index(resource::dram)];
    double dram_squares = s.dram_squares;
    double on_dram = own.on_dram;
    double misses = 0;
    double dram_rate = dram_others; // as misses take longer, less a second than dram_others
    if (own.takes.working_set > 0 && s.working_sets > 0 && s.sets_known) {
      const double part = lost(own.takes.working_set + s.working_sets);
      misses = part * own.takes.kept * miss;
      dram_use +=
          part * l2_over_dram * own.takes.kept * l2_use; // hits that become accesses to DRAM
      const double lost_hits = part * l2_over_dram * s.hits;
      const double more = lost_hits / (1 + part * miss);
      dram_others += lost_hits;
      dram_rate += more;
      dram_squares += squared(std::min(1.0, more));
      on_dram = touched(dram_use);
    }
    const double latency = l2_latency * s.l2_squares + dram_latency * dram_squares;
    const double clocks = s.low_clock && !own.takes.low_clock ? clock * (1 - own.bound) : 0;
    const double slower = 1 + (latency + misses) * own.on_l2 + clocks;
    const double crowded = 1 + warps * s.warps / own.warps; // what its SMs lack
    double sum = to_8th(slower) * (own.bound + (1 - own.bound) * to_8th(crowded));
    for (const double more : on_sms(own, s)) sum += more;
    sum += waiting_for_banks(own.takes, s);
    sum += (to_8th(own.l2_part * (l2_use + l2_others)) - own.l2_alone) * own.on_l2;
    double on_bus = own.dram_part * (dram_use + dram_others);
    if (misses > 0 && dram_rate < dram) on_bus = std::min(on_bus, dram_use / (dram - dram_rate));
    sum += std::max(0.0, to_8th(on_bus) - own.dram_alone) * on_dram;
    return sum;
  }
  [[nodiscard]] static double root_8th(double x) noexcept {
    return std::sqrt(std::sqrt(std::sqrt(x)));
  }

  /// The time of a kernel that has `own_warps` on each of its SMs, over its time alone.
  [[nodiscard]] double slowdown(const demand& own, double own_warps,
                                const surroundings& s) const noexcept {
    kernel k;
    k.takes = own;
    prepare(k, own_warps);
    return root_8th(power(k, s));
  }

  /// The part of a kernel with these uses that takes as long with fewer blocks, as it waits for a
  /// memory that all SMs share.
  [[nodiscard]] double bound_by_memory(double l2_use, double dram_use) const noexcept {
    constexpr double most = 0.95;
    const double part = std::max(l2_use / std::max(l2, 0.01), dram_use / std::max(dram, 0.01));
    return std::min(most, part * part);
  }

  /// The part of their hits that kernels lose whose working sets have this size in total.
  [[nodiscard]] static double lost(double working_sets) noexcept {
    return std::clamp((working_sets / l2_bytes - 1) / cliff, 0.0, 1.0);
  }

private:
  [[nodiscard]] static double squared(double x) noexcept { return x * x; }
  [[nodiscard]] static double to_8th(double x) noexcept { return squared(squared(squared(x))); }

  /// How far a kernel with this use of a memory depends on it: nearly all or nothing.
  [[nodiscard]] static double touched(double use) noexcept {
    constexpr double little = 0.002;
    return use / (use + little);
  }

  /// Whether an SM serves accesses to this resource in turns, older and younger kernels alike.
  [[nodiscard]] static constexpr bool in_turns(std::size_t r) noexcept {
    return r == index(resource::lsu) || r == index(resource::shared_memory) ||
           r == index(resource::l1);
  }

  /// What each resource of an SM adds to the 8th power of the time, if both sides use it. The first
  /// loop has no branch and becomes vector instructions; of a resource that no neighbour uses, it
  /// subtracts a number from itself.
  [[nodiscard]] std::array<double, resources_on_sm> on_sms(const kernel& own,
                                                           const surroundings& s) const noexcept {
    std::array<double, resources_on_sm> more;
    for (std::size_t r = 0; r < resources_on_sm; ++r)
      more[r] = (to_8th(own.takes.use[r] + s.sum[r]) - own.alone[r]) * own.uses[r];
    if (!fills_sm(own, s)) return more;
    for (std::size_t r = 0; r < resources_on_sm; ++r)
      if (!in_turns(r) && own.takes.use[r] + s.sum[r] > 1 && s.sum[r] > 0 && own.takes.use[r] > 0)
        more[r] = on_full_sm(own.takes.use[r], own.alone[r], s.sum[r], s.older[r], s.greatest[r]);
    return more;
  }

  /// What the issue slots or a pipeline of an SM add if the demand exceeds them. `before` is the
  /// demand of older kernels, `greatest` that of one of them, `alone` the 8th power of `own`.
  [[nodiscard]] double on_full_sm(double own, double alone, double others, double before,
                                  double greatest) const noexcept {
    const double all = own + others;
    constexpr double full = 0.95;
    constexpr double least = 0.005; // of its demand, that any kernel still gets
    const bool is_oldest = !(before > 0);
    const double demand_of_first = is_oldest ? own : greatest;
    const double first =
        older * std::clamp((demand_of_first - full_from) / (full - full_from), 0.0, 1.0);
    const double fair = own / all;
    const double rest = is_oldest ? std::min(1.0, own) : std::min(fair, std::max(0.0, 1 - before));
    const double share = std::max(least * own, (1 - first) * fair + first * rest);
    return std::max(0.0, to_8th(own / share) - alone);
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

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/interference/demand.hpp>
#include <gsched/interference/surroundings.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace gsched {

/// How much longer a kernel takes beside others: the one law of contention, for kernels on the same
/// SMs and on SMs of their own.
///
/// A kernel has a demand for each resource, a part of its capacity. Its time is the 8-norm of its
/// own time and of its time at each resource, where the demands of neighbours add up: nearly their
/// sum beyond the capacity, and nearly nothing below it. What differs from that, each explained in
/// docs/research/contention_law.md:
///
/// - An SM's resources beside kernels that touch memory, and so use them in bursts: the 4-norm
///   (by_bursts).
/// - A pipeline, or issue slots, that both ask for more of than there is: one goes first
///   (share_of_full). FP64, FP16 and tensor cores share a port (waiting_for_port). Shared memory
///   takes turns, each of all wavefronts of an access (waiting_for_banks).
/// - Warps of others on a kernel's SMs, and the lower clock beside tensor cores (power).
/// - Slower accesses to L2 and DRAM beside traffic (power); a full DRAM, shared by the accesses
///   under way (taken_of_dram); working sets beyond L2, whose hits become misses (lost).
/// - Waits behind loads, slots and code of kernels of graphs, which multiply a kernel's time
///   (waiting, waiting_for_slots); the same beside endless kernels, and turns beside one of them
///   (waiting_beside_endless, add_turns).
///
/// Source   the resources and effects of Elvinger et al., SoCC 2025, sections 4.3 and 4.4,
///          doi:10.1145/3772052.3772270. l2_latency and dram_latency are fitted (`interference
///          fit`); docs/research/contention_law.md says where each other number comes from.
/// Units    pure numbers, except l2_bytes.
/// Order    the slow-down is at least 1, is 1 alone, and never falls with a demand of a neighbour.
///          Without warps beside its own, or a low clock, it never falls with a demand of its own
///          either, unless that makes the kernel one that others wait for, or one with more
///          accesses under way. The throughput of all never exceeds a capacity. A demand of L1
///          includes that of shared memory, as its counter does. Rules for one endless kernel on
///          the same SMs hold beside that one alone: of two neighbours of which one is endless, the
///          slow-down may be less than beside the endless one. corun_slowdowns takes the larger.
/// Cost     some 150 multiplications and three roots, and three powers beside an endless kernel; no
///          allocation. For one kernel in many surroundings, prepare() takes a third of that once,
///          and the roots of several kernels can be drawn side by side.
/// Threads  a pure function.
struct contention_law {
  static constexpr std::size_t size = 7;
  static constexpr double warps_to_fill = 7; ///< as in scaling_law of sim/: on kernels alone
  static constexpr double full_from = 0.75;  ///< use of an SM from which one kernel goes first
  static constexpr double port_cycles_of_tensor = 1.1; ///< of the port, in one of a tensor core
  static constexpr double l2_over_dram = 2.15;         ///< capacities in bytes a second, of an H200
  static constexpr double l2_bytes = 60.0 * 1024 * 1024; ///< of an H200
  static constexpr double miss = 1.27; ///< time of a miss beyond that of a hit, over the latter
  static constexpr double cliff =
      0.32; ///< over L2's size: beyond it, up to where all hits are lost

  double l2_latency = 0.3;            ///< relative slow-down beside all of L2's throughput
  double dram_latency = 0.6;          ///< additional one beside all of DRAM's
  double warps = 0.2;                 ///< weight of a neighbour's warp on an SM, over an own warp
  double l2 = 1.15;                   ///< part of L2's counted throughput that can be reached
  double dram = copies_reach_of_dram; ///< the same of DRAM
  double older = 0.977; ///< of its demand, what the kernel that goes first keeps; 0: no more
                        ///< than its share by demand
  double clock = 0.09;  ///< relative slow-down beside tensor cores, without own ones

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
    double on_memory = 0;         ///< how far these matter
    double felt = 0;              ///< felt_of_memory, less 1: applies to the traffic of other SMs
    double wavefronts = 0;        ///< under way: see surroundings
    double bound = 0;             ///< see bound_by_memory
    double on_l2 = 0;             ///< how far it depends on L2, and on DRAM: see touched
    double on_dram = 0;
    double l2_part = 1; ///< over a use of L2: of what can be reached, instead of what is counted
    double dram_part = 1;
    double accesses = 1; ///< see demand::accesses_ahead
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
    k.on_memory = surroundings::touches_memory(k.takes);
    k.felt = felt_of_memory(k.takes.waits) - 1;
    k.wavefronts = surroundings::waiting_wavefronts(k.takes, own_warps);
    k.bound = bound_by_memory(0, dram_use);
    k.on_l2 = touched(l2_use);
    k.on_dram = touched(dram_use);
    k.l2_part = 1 / std::max(l2, 0.01);
    k.dram_part = 1 / std::max(dram, 0.01);
    k.accesses = k.takes.accesses_ahead();
    k.l2_alone = to_8th(k.l2_part * l2_use);
    k.dram_alone = to_8th(k.dram_part * dram_use);
  }

  /// Whether the kernel and its neighbours ask issue slots or a pipeline of an SM for more than it
  /// has. If not, it makes no difference which of them goes first: power() reads none of s.older,
  /// s.greatest and s.most.
  [[nodiscard]] static bool fills_sm(const kernel& own, const surroundings& s) noexcept {
    bool full = false;
    for (std::size_t r = 0; r < resources_on_sm; ++r)
      full |= own.takes.use[r] + s.sum[r] > 1 && !in_turns(r);
    return full || (own.takes.use[port] > 0 && own.takes.use[port] + at_port(s) > 1);
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
    dram_others = taken_of_dram(own, dram_others, s);
    const double without_misses = own.dram_part * (dram_use + dram_others);
    if (own.takes.working_set > 0 && s.working_sets > 0) {
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
    const double latency = l2_latency * s.l2_squares + dram_latency * dram_squares +
                           own.felt * (l2_latency * s.l2_apart + dram_latency * s.dram_apart);
    const double clocks = s.low_clock && !own.takes.low_clock ? clock * (1 - own.bound) : 0;
    const double slower = 1 + (latency / own.accesses + misses) * own.on_l2 + clocks;
    const double crowded = 1 + warps * own.on_memory * s.warps / own.warps; // what its SMs lack
    double sum = to_8th(slower) * (own.bound + (1 - own.bound) * to_8th(crowded));
    if (s.at_endless.any()) sum += to_8th(1 + waiting_beside_endless(own, s.at_endless)) - 1;
    for (const double more : on_sms(own, s)) sum += more;
    sum += by_bursts(own, s);
    sum += (to_8th(own.l2_part * (l2_use + l2_others)) - own.l2_alone) * own.on_l2;
    double on_bus = own.dram_part * (dram_use + dram_others);
    if (misses > 0 && dram_rate < dram)
      on_bus = std::max(without_misses, std::min(on_bus, dram_use / (dram - dram_rate)));
    sum += std::max(0.0, to_8th(on_bus) - own.dram_alone) * on_dram;
    if (!s.at_graphs.any()) return sum;
    return sum *
           to_8th(1 + waiting(own.takes, s.at_graphs) + waiting_for_slots(own.takes, s.at_graphs));
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

  /// What others take of DRAM from a kernel. A full memory gives each as much as it has accesses
  /// waiting there, so one that has more of them than others loses less to these. All keep what
  /// they get in proportion to their demands; the rest of the capacity goes by accesses.
  ///
  /// Source   single kernels of nine graphs of PyTorch and two decode steps beside copies, on one
  ///          H200.
  [[nodiscard]] double taken_of_dram(const kernel& own, double others,
                                     const surroundings& s) const noexcept {
    const double demands = s.sum[index(resource::dram)];
    if (!(demands > 0)) return others;
    const double accesses = demands + s.dram_ahead;
    const double by_accesses = accesses / (own.accesses * demands);
    if (!(by_accesses < 1)) return others;
    const double use = own.takes.of(resource::dram);
    const double proportional = std::min(1.0, dram / (use + others));
    const double rest = 1 - proportional * (use + others);
    const double part = use * own.accesses / (use * own.accesses + accesses);
    const double most = use * proportional + rest * part;    // that it can get
    const double reached = std::max(1 / own.dram_part, use); // by it alone
    return std::min(others, std::max(by_accesses * others, use * (reached / most - 1)));
  }

  /// How far a kernel with this use of a memory depends on it: nearly all or nothing.
  [[nodiscard]] static double touched(double use) noexcept {
    constexpr double little = 0.002;
    return use / (use + little);
  }

  /// What its warps wait beside other kernels, over its time alone. Each access to L2, and each
  /// fetch of code, waits behind theirs, and one to shared memory while L1 cannot pass on their
  /// stores.
  [[nodiscard]] static double waiting(const demand& own, const waits_beside& s) noexcept {
    return own.waits.instructions * s.queue / l2_hit_cycles + waiting_for_data(own, s);
  }
  [[nodiscard]] static double waiting_for_data(const demand& own, const waits_beside& s) noexcept {
    constexpr double blocked_cycles =
        340; // of shared memory, beside stores that are always blocked
    const warp_waits& w = own.waits;
    double more = 0;
    // In the mean latency are hits of L1, which do not wait.
    if (w.load_cycles > 0)
      more += w.memory * (s.queue + s.conflicts) / std::max(l2_hit_cycles, w.load_cycles);
    if (w.shared_cycles > 0) more += w.shared_memory * s.blocked * blocked_cycles / w.shared_cycles;
    return more;
  }
  /// The same for a free issue slot, unless the kernel takes nearly all of them.
  [[nodiscard]] double waiting_for_slots(const demand& own, const waits_beside& s) const noexcept {
    const double gives_way = 1 - older * goes_first(own.of(resource::issue));
    return own.waits.executing * gives_way * s.slots / (1 - s.slots);
  }

  /// All that its warps wait beside endless kernels. Kernels hide a latency as long as alone and
  /// little more, so one that touches memory waits behind accesses that L2 serves, whether its
  /// warps wait alone or not; so do fetches of code; and as others' code fills the caches, it
  /// fetches its own again while it executes.
  ///
  /// Source   single kernels of 16 graphs of PyTorch beside probes, on one H200.
  [[nodiscard]] double waiting_beside_endless(const kernel& own,
                                              const waits_beside& s) const noexcept {
    constexpr double always = 60; // cycles by which loads of several sectors take longer anyway
    constexpr double again = 0.2; // wait for code, over the time that executes it
    const demand& d = own.takes;
    const double hidden = own.on_memory * std::max(0.0, s.hits - always) / hides_cycles(d);
    const double not_hidden =
        waiting_for_data(d, s) + d.waits.instructions * s.hits / l2_hit_cycles;
    return std::max(hidden, not_hidden) +
           again * s.code * (d.waits.executing + d.waits.instructions) + waiting_for_slots(d, s);
  }
  /// The latency of loads that doubles a kernel's time if it is added to what it meets alone: that
  /// of a hit, but the more its buffers hold, the longer it goes on without its loads; and it is
  /// used to waiting in its own queue.
  ///
  /// Source   as waiting_beside_endless: kernels of 16 graphs beside copies, reads and writes.
  [[nodiscard]] static double hides_cycles(const demand& d) noexcept {
    constexpr double usual_us = 1.6, least_us = 0.68, most_us = 5.1; // that buffers last
    constexpr double without_buffers = 1.25, own_queue = 0.3;
    const double in_buffers = d.buffer_us > 0
                                  ? std::sqrt(std::clamp(d.buffer_us, least_us, most_us) / usual_us)
                                  : without_buffers;
    return l2_hit_cycles * in_buffers * std::pow(1 + d.queue_cycles / l2_hit_cycles, own_queue);
  }

  /// Whether an SM serves accesses to this resource in turns, older and younger kernels alike.
  [[nodiscard]] static constexpr bool in_turns(std::size_t r) noexcept {
    return r == index(resource::lsu) || r == index(resource::shared_memory) ||
           r == index(resource::l1);
  }

  /// Whether one warp can fill it, by an instruction a cycle: then a kernel that does keeps it,
  /// older or not.
  [[nodiscard]] static constexpr bool kept_by_one_warp(std::size_t r) noexcept {
    return r == index(resource::issue) || r == index(resource::fma);
  }

  /// By which FP64 and FP16 instructions start. Tensor cores share it.
  static constexpr std::size_t port = index(resource::fp64);
  [[nodiscard]] static double tensor_at_port(const surroundings& s) noexcept {
    return port_cycles_of_tensor * s.sum[index(resource::tensor)];
  }
  /// What FMA instructions of endless kernels take of it: an FP64 instruction takes two cycles.
  [[nodiscard]] static double fma_at_port(const surroundings& s) noexcept {
    return s.only_endless() ? s.sum[index(resource::fma)] : 0;
  }
  /// What others take of it.
  [[nodiscard]] static double at_port(const surroundings& s) noexcept {
    return s.sum[port] + tensor_at_port(s) + fma_at_port(s);
  }

  /// What each resource of an SM adds to the 8th power of the time, if both sides use it. The first
  /// loop has no branch and becomes vector instructions; of a resource that no neighbour uses, it
  /// subtracts a number from itself.
  [[nodiscard]] std::array<double, resources_on_sm> on_sms(const kernel& own,
                                                           const surroundings& s) const noexcept {
    std::array<double, resources_on_sm> more;
    for (std::size_t r = 0; r < resources_on_sm; ++r)
      more[r] = (to_8th(own.takes.use[r] + s.sum[r]) - own.alone[r]) * own.uses[r];
    if (own.wavefronts > 0 && s.wavefronts > 0)
      more[index(resource::shared_memory)] = waiting_for_banks(own, s);
    if (own.takes.use[port] > 0 && at_port(s) > 0) more[port] = waiting_for_port(own, s);
    if (fills_sm(own, s))
      for (std::size_t r = 0; r < resources_on_sm; ++r)
        if (!in_turns(r) && r != port && own.takes.use[r] + s.sum[r] > 1 && s.sum[r] > 0 &&
            own.takes.use[r] > 0)
          more[r] =
              std::max(0.0, to_8th(own.takes.use[r] / share_of_full(own, s, r)) - own.alone[r]);
    if (takes_turns_with(own, s)) add_turns(own, s, more);
    // An FMA instruction takes an issue slot as well, so a kernel waits for the scarcer of the two.
    double& fma = more[index(resource::fma)];
    fma = std::max(0.0, fma - more[index(resource::issue)]);
    if (s.only_endless()) beside_endless(own, s, more);
    return more;
  }

  /// Whether it takes turns with one endless kernel beside it.
  [[nodiscard]] static bool takes_turns_with(const kernel& own, const surroundings& s) noexcept {
    return s.beside == 1 && s.endless == 1 && surroundings::takes_turns(own.takes);
  }
  /// For how many cycles an instruction waits for its turn beside a kernel that keeps a resource of
  /// a scheduler: only the first of a run of instructions waits for the issue slots, and of those
  /// for ALUs the fewer, the longer the runs are.
  [[nodiscard]] static double cycles_until_slot(double fixed_stall, double each) noexcept {
    return std::min(15.0, 2 + 25 * fixed_stall) * std::pow(each, -0.2);
  }
  [[nodiscard]] static double cycles_until_alu(double fixed_stall) noexcept {
    return std::min(14.0, 2 + 8 * fixed_stall);
  }
  static constexpr double cycles_until_tensor = 4.3;
  /// Special functions wait in a queue; a kernel that waits for memory has the waits under way at
  /// once.
  [[nodiscard]] static double cycles_until_xu(const warp_waits& w, double each) noexcept {
    return 70 * std::pow(each, -0.4) * squared(1 - w.memory);
  }
  /// How much of another's instructions a kernel waits for if both ask for more slots than there
  /// are: all, unless its runs of instructions are longer, as a warp goes on until it stalls.
  [[nodiscard]] static double of_others_runs(double fixed_stall, double others) noexcept {
    constexpr double shortest = 0.05, least_stall = 0.01;
    return std::min(1.0, (shortest + fixed_stall) / std::max(least_stall, others));
  }

  /// What the resources of a scheduler add if the kernel takes turns at them: its demand is that of
  /// schedulers with warps of its own. What little one asks for waits as well.
  ///
  /// Source   as waiting_beside_endless.
  void add_turns(const kernel& own, const surroundings& s,
                 std::array<double, resources_on_sm>& more) const noexcept {
    const double resident = own.warps - warps_to_fill;
    const double each = on_scheduler(resident);
    const double stall = own.takes.fixed_stall;
    const auto add = [&](resource at, double others, double cycles) {
      const std::size_t r = index(at);
      const double use = std::min(1.0, own.takes.use[r] * denser(resident));
      if (!(use > 0) || !(s.sum[r] > 0)) return;
      const double both = use + others * s.sum[r];
      const double slow = slowed_beside_first(both, 1 + use * cycles, s.most[r]);
      more[r] = std::max(to_8th(both) - to_8th(use), to_8th(slow) - 1);
    };
    const double runs = of_others_runs(stall, s.fixed_stall);
    add(resource::issue, runs, cycles_until_slot(stall, each));
    add(resource::fma, runs, 0); // its turns are those at the slots
    add(resource::alu, 1, cycles_until_alu(stall));
    add(resource::xu, 1, cycles_until_xu(own.takes.waits, each));
    add(resource::tensor, 1, cycles_until_tensor);
  }
  /// The slow-down of a kernel that would be slowed so much by a fair share, or by its turns,
  /// beside one that asks for `first`.
  [[nodiscard]] double slowed_beside_first(double fair, double turns, double first) const noexcept {
    const double keeps = older * goes_first(first);
    const double shared = 1 / std::max(1.0, fair);
    return 1 / ((1 - keeps) * shared + keeps * std::min(shared, 1 / turns));
  }
  /// Warps of a kernel on each scheduler that has any, if an SM has so many.
  [[nodiscard]] static double on_scheduler(double warps) noexcept {
    return std::max(1.0, warps / waits_beside::schedulers);
  }
  /// Its demand there, over its demand of the SM.
  [[nodiscard]] static double denser(double warps) noexcept {
    return waits_beside::schedulers / std::clamp(warps, 1.0, waits_beside::schedulers);
  }

  /// The reverse: whether it is an endless kernel beside one that takes turns, and how much turns
  /// at this resource, the issue slots or FMA, slow that one.
  [[nodiscard]] static bool others_take_turns(const kernel& own, const surroundings& s) noexcept {
    return s.beside == 1 && s.last_takes_turns && surroundings::is_endless(own.takes);
  }
  [[nodiscard]] double slowed_by_turns(const kernel& own, const surroundings& s,
                                       std::size_t r) const noexcept {
    const double runs = of_others_runs(s.fixed_stall, own.takes.fixed_stall);
    const double use = std::min(1.0, s.sum[r] * denser(s.resident));
    const double cycles = cycles_until_slot(s.fixed_stall, on_scheduler(s.resident));
    return slowed_beside_first(use + runs * own.takes.use[r], 1 + use * cycles,
                               own.takes.of(resource::issue));
  }

  /// What differs beside endless kernels alone. The counter of L1 has a kernel's accesses to shared
  /// memory too, which leave L1 to others; and FMA instructions keep the port from tensor cores.
  static void beside_endless(const kernel& own, const surroundings& s,
                             std::array<double, resources_on_sm>& more) noexcept {
    constexpr double fma_cycles = 1.2; // of the port, beside a tensor core
    constexpr std::size_t l1 = index(resource::l1), tensor = index(resource::tensor);
    const double in_l1 = std::max(0.0, own.takes.use[l1] - own.takes.of(resource::shared_memory));
    more[l1] = in_l1 > 0 ? to_8th(in_l1 + s.sum[l1]) - to_8th(in_l1) : 0;
    const double of_port = port_cycles_of_tensor * own.takes.use[tensor];
    const double fma = fma_cycles * fma_at_port(s);
    if (of_port > 0 && fma > 0)
      more[tensor] = std::max(more[tensor], to_8th(of_port + fma) - to_8th(of_port));
  }

  /// What more the resources of an SM add, as both sides use them in bursts: the 4-norm of the
  /// kernel's time and of its times there, less the 8-norm. Shared memory counts as L1, of whose
  /// accesses its own are a part.
  [[nodiscard]] static double by_bursts(const kernel& own, const surroundings& s) noexcept {
    double of_4th = 0, of_8th = 0;
    for (std::size_t r = 0; r < resources_on_sm; ++r) {
      const double before = squared(squared(own.takes.use[r]));
      const double after = squared(squared(own.takes.use[r] + s.sum[r] - s.steady_sum[r]));
      const double counts = r == index(resource::shared_memory) ? 0 : own.uses[r];
      of_4th += (after - before) * counts;
      of_8th += (after * after - own.alone[r]) * counts;
    }
    const double has_bursts = own.takes.steady ? 0 : own.on_l2;
    return has_bursts * std::max(0.0, of_4th * (2 + of_4th) - of_8th);
  }

  /// The part of a resource that goes to the kernel that asks for `first`: all that it asks for, as
  /// far as that is nearly all there is.
  [[nodiscard]] static double goes_first(double first) noexcept {
    constexpr double full = 0.85;
    return ramp(first, full_from, full);
  }
  [[nodiscard]] static double ramp(double x, double from, double to) noexcept {
    return std::clamp((x - from) / (to - from), 0.0, 1.0);
  }
  static constexpr double least = 0.005; ///< of its demand, that any kernel still gets

  /// The part of the pauses of a warp that keeps a resource that a kernel can use: all of them with
  /// bursts of instructions, as after a wait for memory or code, if it has a warp on each
  /// scheduler. Else no more than alone, and an instruction of each warp that is ready as the pause
  /// begins. All where its waits are not known.
  [[nodiscard]] static double in_pauses(const kernel& own, double use) noexcept {
    constexpr double pause = 10; // instructions, until the warp goes on
    const warp_waits& w = own.takes.waits;
    if (w == warp_waits{}) return 1;
    const double warps = (own.warps - warps_to_fill) / waits_beside::schedulers; // of one
    const double bursts = std::max(w.instructions, own.takes.steady ? 0 : own.on_l2);
    return bursts * std::min(1.0, warps) + (1 - bursts) * std::min(1.0, use + warps / pause);
  }

  /// How far the kernel that asks for more keeps issue slots or the FMA pipeline. Of two of which
  /// one is endless, the other gives way earlier if it only computes, and has turns of many
  /// instructions if it issues nearly all the time.
  [[nodiscard]] static double keeps_slots(const kernel& own, const surroundings& s,
                                          std::size_t r) noexcept {
    const auto [second, first] = std::minmax(own.takes.use[r], s.most[r]);
    if (!of_two(own, s)) return goes_first(first);
    const double computes =
        own.takes.use[r] > s.most[r] ? s.computes : only_computes(own.takes.waits);
    const double keeps = (1 - computes) * goes_first(first) + computes * ramp(first, 0.6, 0.75);
    return keeps * (1 - ramp(second, 0.6, 0.9));
  }

  /// How far a kernel that waits for memory has its turns at a pipeline that the other of two
  /// nearly fills, if one of both is endless: its instructions come after a pause, and those for
  /// special functions wait in a queue.
  [[nodiscard]] static double have_turns(const kernel& own, const surroundings& s,
                                         std::size_t r) noexcept {
    if (!of_two(own, s)) return 0;
    constexpr double part = 0.4;
    const bool has = r == index(resource::xu) || r == index(resource::alu);
    return has ? part * std::max(own.takes.waits.memory, s.memory_waits) : 0;
  }
  /// Whether it shares its SMs with one kernel, and one of both is endless.
  [[nodiscard]] static bool of_two(const kernel& own, const surroundings& s) noexcept {
    return s.beside == 1 && (s.endless == 1 || surroundings::is_endless(own.takes));
  }

  /// The part that a kernel gets of the issue slots or of a pipeline if all ask for more than there
  /// is.
  [[nodiscard]] double share_of_full(const kernel& own, const surroundings& s,
                                     std::size_t r) const noexcept {
    constexpr double clear = 0.1; // lead in demand that decides who keeps the resource
    const double use = own.takes.use[r];
    const double all = use + s.sum[r];
    const double left_by_turns =
        others_take_turns(own, s) ? 1 - s.sum[r] / slowed_by_turns(own, s, r) : 1;
    const double fair = std::min(left_by_turns, use / all);
    if (!kept_by_one_warp(r)) {
      const double by_age = share_by_age(use, s.sum[r], s.older[r], s.greatest[r], 1);
      return by_age + (fair - by_age) * have_turns(own, s, r);
    }
    const bool is_first = use > s.most[r];
    const double decided = std::min(1.0, std::abs(use - s.most[r]) / clear);
    const double used = 1 - older + older * in_pauses(own, use);
    const double left = (1 - older * s.most[r]) * used * use / (all - s.most[r]); // others share it
    const double part = decided * keeps_slots(own, s, r);
    const double keeps = std::min(left_by_turns, older * std::min(1.0, use));
    const double in_order = is_first ? std::max(fair, keeps) : std::min(fair, std::max(0.0, left));
    return std::max(least * use, (1 - part) * fair + part * in_order);
  }

  /// The same of `capacity`, of which the oldest kernel gets what it asks for first.
  [[nodiscard]] double share_by_age(double use, double others, double of_older, double greatest,
                                    double capacity) const noexcept {
    const double fair = capacity * use / (use + others);
    const bool is_first = !(of_older > 0);
    const double part = goes_first(is_first ? use : greatest);
    const double in_order = is_first ? std::max(fair, older * std::min(capacity, use))
                                     : std::min(fair, std::max(0.0, capacity - older * of_older));
    return std::max(least * use, (1 - part) * fair + part * in_order);
  }

  /// What the port adds: tensor cores take it first, older or not.
  [[nodiscard]] double waiting_for_port(const kernel& own, const surroundings& s) const noexcept {
    const double use = own.takes.use[port];
    double slow = use + at_port(s);
    if (slow > 1) {
      const double rest = std::max(0.0, 1 - tensor_at_port(s));
      slow = use / share_by_age(use, s.sum[port], s.older[port], s.greatest[port], rest);
    }
    if (fma_at_port(s) > 0) slow = std::max(slow, use + at_port(s));
    return std::max(0.0, to_8th(slow) - own.alone[port]);
  }

  /// Accesses to shared memory take turns, each with all of its wavefronts: so a kernel waits for
  /// the others' that are under way, all the time if together they fill the SM, else as often as
  /// these are at it.
  [[nodiscard]] static double waiting_for_banks(const kernel& own, const surroundings& s) noexcept {
    constexpr double nearly = 0.2; // below that all of the time is used
    const double use = own.takes.of(resource::shared_memory);
    const double others = std::min(1.0, s.sum[index(resource::shared_memory)]);
    const double filled = std::clamp((use + others - (1 - nearly)) / nearly, 0.0, 1.0);
    const double often = others + (1 - others) * filled;
    return to_8th(use * (1 + often * s.wavefronts / own.wavefronts)) -
           own.alone[index(resource::shared_memory)];
  }
};

} // namespace gsched

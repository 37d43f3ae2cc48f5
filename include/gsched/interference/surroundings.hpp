// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/interference/demand.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace gsched {

/// What the warps of a kernel wait for beside others on its SMs, of which it is known for what
/// theirs wait.
///
/// Units    cycles; slots, blocked and code: parts of the time.
/// Source   as contention_law.
struct waits_beside {
  double queue = 0;     ///< for which accesses to memory wait behind theirs
  double hits = 0;      ///< the part of it that hits in L2, and fetches of code, wait as well
  double conflicts = 0; ///< for which loads wait behind their accesses to shared memory
  double blocked = 0;   ///< in which no access to shared memory starts beside their stores
  double slots = 0;     ///< issue slots that they take, if each has several warps a scheduler
  double code = 0;      ///< how far their code fills the caches of instructions: 0 to 1

  static constexpr double schedulers = 4; ///< of an SM

  [[nodiscard]] bool any() const noexcept {
    return queue > 0 || conflicts > 0 || blocked > 0 || slots > 0 || code > 0;
  }

  /// Adds what one of them causes, that is on the part `near` of the SMs.
  void add(const demand& d, double near, double resident_warps, bool is_older) noexcept {
    constexpr double older_slots = 0.45; // how much less the older kernel waits for them
    constexpr double some = 3;           // warps of a scheduler that issue at random
    constexpr double most_slots = 0.9;
    constexpr double usual_code = 0.1; // part of the time that kernels wait for code
    constexpr double of_stores = 0.35; // of the queue of misses, ahead of L2 if stores block L1
    const double turn = (is_older ? 1.2 : 0.8) * near; // the older of two kernels waits less
    queue += d.queue_cycles * turn;
    hits += d.queue_cycles * (d.kept + (1 - d.kept) * of_stores * d.waits.blocked) * turn;
    conflicts += conflict_cycles(d, resident_warps) * near;
    blocked = std::min(1.0, blocked + d.waits.blocked * turn);
    const double at_random = std::clamp((resident_warps / schedulers - 1) / (some - 1), 0.0, 1.0);
    const double taken = d.of(resource::issue) * at_random * (is_older ? 1 : older_slots) * near;
    slots = std::min(most_slots, slots + taken);
    code = std::max(code, (d.waits.instructions - usual_code) * near);
  }
};

/// What a kernel meets on its SMs and on the device: the demands of the kernels beside it, summed
/// up for contention_law. Begin with an empty one and add() each neighbour.
///
/// Units    parts of a resource's capacity, unless a line says otherwise.
/// Source   as contention_law.
/// Cost     add: O(resources); no allocation.
/// Threads  a plain value.
struct surroundings {
  static constexpr double steady = 0.6; ///< mean square of steady traffic, over that of bursts
  static constexpr double endless_traffic = 0.65; ///< the same of endless kernels, see is_endless
  static constexpr double stores = 5; ///< what stores that fill memory's queues add to a square
  static constexpr double endless_stores = 8.5; ///< the same where they fill them all the time

  /// How far a kernel waits for memory, so that warps beside its own matter to it, and its own to
  /// others: all but those with next to no traffic.
  [[nodiscard]] static double touches_memory(const demand& d) noexcept {
    constexpr double some = 0.002;
    return std::min(1.0, d.of(resource::l2) / some);
  }
  /// Whether it takes the same all the time, and it is known for what its warps wait.
  [[nodiscard]] static bool is_endless(const demand& d) noexcept {
    return d.steady && d.waits != warp_waits{};
  }
  /// Whether its instructions come in runs, after each of which others have their turn: not those
  /// of an endless kernel, nor of one that does nothing but compute, and not where its waits are
  /// not known.
  [[nodiscard]] static bool takes_turns(const demand& d) noexcept {
    return !d.steady && d.waits.executing > 0 && only_computes(d.waits) < 1;
  }
  /// What the square of a kernel's mean traffic counts: less where it has no bursts, and of one on
  /// other SMs the more, the longer its warps wait for it.
  [[nodiscard]] static double square_counts(const demand& d, bool is_near) noexcept {
    if (is_endless(d)) return endless_traffic;
    if (d.steady) return steady;
    return is_near ? 1 : weight_of_traffic(d.waits);
  }
  /// Wavefronts of a kernel's accesses to shared memory that are under way on an SM: of one access
  /// a warp, or what its use says if each is under way for 50 cycles, or for as long as is known.
  /// Warps of an endless kernel have one access each.
  [[nodiscard]] static double waiting_wavefronts(const demand& d, double warps) noexcept {
    constexpr double usual = 50;
    const double use = d.of(resource::shared_memory);
    const double cycles = d.steady ? usual : std::max(usual, d.waits.shared_cycles);
    return use > 0 ? std::max(warps * d.conflict, cycles * use) : 0;
  }

  /// How far the accesses of an endless kernel wait in queues, if it has so many warps on the
  /// device: not at all if each gets what a warp gets that copies on an idle device.
  [[nodiscard]] static double queued(const demand& d, double warps_on_device) noexcept {
    constexpr double alone = 4.7e-4; // of L2's throughput, for a warp
    constexpr double full = 2.4;     // times as long
    const double longer = alone * warps_on_device / std::max(1e-9, d.of(resource::l2));
    return std::clamp((longer - 1) / (full - 1), 0.0, 1.0);
  }

  std::array<double, resources> sum{};              ///< of all neighbours
  std::array<double, resources_on_sm> steady_sum{}; ///< of those without bursts
  std::array<double, resources_on_sm> most{};       ///< the largest of any
  std::array<double, resources_on_sm> older{};      ///< of those that started before it
  std::array<double, resources_on_sm> greatest{};   ///< the largest of these
  double warps = 0; ///< of kernels whose accesses wait, beside its blocks on each of its SMs
  std::uint32_t beside = 0;  ///< kernels on its SMs
  std::uint32_t endless = 0; ///< those of them that are endless, with known waits
  double memory_waits = 0;   ///< the largest part of its time that a warp of these waits for memory
  double computes = 0;       ///< how far any of them only computes
  double fixed_stall = 1;    ///< of the last of them: see demand
  double resident = 0;       ///< its warps on an SM
  bool last_takes_turns = false; ///< see takes_turns
  waits_beside at_endless{};     ///< what its warps wait for beside endless kernels
  waits_beside at_graphs{};      ///< the same beside kernels of graphs, on top of all else
  double wavefronts = 0;         ///< of their accesses to shared memory: see waiting_wavefronts
  double l2_squares = 0;   ///< sum of the squares of each neighbour's use of L2, less where steady
  double dram_squares = 0; ///< the same of DRAM
  double dram_ahead = 0;   ///< accesses at DRAM beyond the usual: see demand::accesses_ahead
  double l2_apart = 0;     ///< the part of l2_squares of neighbours on other SMs
  double dram_apart = 0;   ///< the same of dram_squares
  double working_sets = 0; ///< bytes, of all neighbours of which they are known
  double hits = 0;         ///< L2 throughput that would go to DRAM if the working sets did not fit
  bool low_clock = false;  ///< a neighbour lowers the SM clock, see demand

  /// Whether the kernels on its SMs are endless ones.
  [[nodiscard]] bool only_endless() const noexcept { return beside > 0 && endless == beside; }

  /// Adds a neighbour. `near` is the part of the kernel's SMs that it shares, `far` the part of the
  /// neighbour's traffic that reaches L2 and DRAM.
  void add(const demand& d, double near, double far, double resident_warps,
           bool is_older) noexcept {
    if (near > 0) {
      for (std::size_t r = 0; r < resources_on_sm; ++r) {
        const double taken = d.use[r] * near;
        sum[r] += taken;
        steady_sum[r] += d.steady ? taken : 0;
        most[r] = std::max(most[r], taken);
        if (!is_older) continue;
        older[r] += taken;
        greatest[r] = std::max(greatest[r], taken);
      }
      ++beside;
      endless += is_endless(d) ? 1u : 0u;
      memory_waits = std::max(memory_waits, d.waits.memory);
      computes = std::max(computes, only_computes(d.waits));
      fixed_stall = d.fixed_stall;
      resident = resident_warps * near;
      last_takes_turns = takes_turns(d);
      if (is_endless(d)) {
        at_endless.add(d, near, resident_warps, is_older);
      } else {
        warps += touches_memory(d) * d.queued * resident_warps * near;
        if (d.waits != warp_waits{}) at_graphs.add(d, near, resident_warps, is_older);
      }
      wavefronts += waiting_wavefronts(d, resident_warps) * near;
    }
    for (std::size_t r = resources_on_sm; r < resources; ++r) sum[r] += d.use[r] * far;
    dram_ahead += d.of(resource::dram) * far * (d.accesses_ahead() - 1);
    const double reach = d.pressure * far * far;
    const double of_square = square_counts(d, near > 0) * reach;
    const double of_stores = d.stores * (d.steady ? endless_stores : stores) * reach;
    const double l2_square = d.of(resource::l2) * d.of(resource::l2) * of_square;
    const double dram_square =
        d.of(resource::dram) * d.of(resource::dram) * (of_square + of_stores);
    l2_squares += l2_square;
    dram_squares += dram_square;
    if (!(near > 0)) {
      l2_apart += l2_square;
      dram_apart += dram_square;
    }
    low_clock |= d.low_clock && far > 0;
    if (d.of(resource::l2) * far > 0) {
      working_sets += d.working_set;
      hits += d.kept * d.of(resource::l2) * far;
    }
  }
};

} // namespace gsched

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/interference/start_loss.hpp>

#include <algorithm>
#include <cmath>

namespace gsched {

/// How kernels of graphs that are replayed beside others follow one another.
///
/// Units    microseconds
struct replay_law {
  /// Blocks that the dispatcher of a GPU places in a microsecond, of all kernels together:
  /// gsched.gpu.block_starts on one H200.
  static constexpr double blocks_per_us = 1660;
  /// Blocks of one warp that an SM starts in a microsecond, by the same program.
  static constexpr double blocks_per_sm_us = 20;

  double gap_us = 0.6;    ///< see gap()
  double start_us = 0.25; ///< lost by each other running kernel as one of few blocks starts

  /// What neighbours add to the gap between two kernels: in proportion to their use of L2,
  /// presumably as the next kernel's code comes through it. Of endless probes their use of DRAM
  /// counts, beside the graph's own: what streams through L2 pushes the code out of it, little
  /// traffic nearly as soon as much, and not what the graph's own traffic has pushed out.
  [[nodiscard]] double gap(double l2, double streams = 0, double own_dram = 0) const noexcept {
    return gap_us * (l2 + std::sqrt(own_dram + streams) - std::sqrt(own_dram));
  }

  /// How many starts of few blocks the start of so many counts for: all kernels have one dispatcher
  /// of blocks.
  [[nodiscard]] static double starts(double blocks) noexcept {
    constexpr double more_at = 500; // blocks take as long as the start itself
    constexpr double most = 5;
    return std::min(most, 1 + blocks / more_at);
  }
  /// The part of a pause that costs a kernel time. `busiest` is its largest use of anything that an
  /// SM has, in the simulator with that of all kernels on its SMs: the work that is queued on busy
  /// SMs hides the pause.
  [[nodiscard]] static double exposed(double busiest) noexcept {
    return 1 - busiest * busiest * busiest;
  }
  /// Lost by another running kernel as one of so many blocks starts: on shared SMs, and on others
  /// where start_loss does not know it. On shared SMs callers count no blocks: there the blocks of
  /// both wait for places, which is computed on its own.
  [[nodiscard]] double lost_us(double blocks, double busiest = 0) const noexcept {
    return start_us * starts(blocks) * exposed(busiest);
  }

  /// The same of the simulated GPU on shared SMs, so long after the last start of any kernel: the
  /// caches have little to lose soon after a start, see start_loss.
  ///
  /// Source   `long_after` was chosen on eight PyTorch models on one H200, served at a load of 1.8
  ///          (docs/research/simulator.md). Long after another a start costs what it costs the
  ///          median of 122 graphs on other SMs: 0.9 and 0.8 us on 132 SMs.
  [[nodiscard]] double lost_again_us(double since_us, double busiest) const noexcept {
    constexpr double long_after = 3.6;
    return long_after * start_us * start_loss::refilled(since_us) * exposed(busiest);
  }

  /// For so long the first blocks of a kernel wait for their code on an SM that has run another
  /// graph's since, while all kernels together use so much of DRAM. Chosen on pairs on shared SMs.
  [[nodiscard]] double code_us(double dram) const noexcept {
    constexpr double idle = 0.4, busy = 3.2; // of start_us
    return start_us * (idle + busy * std::min(1.0, dram));
  }

  /// For so long a kernel that starts keeps the dispatcher, which places so many of its blocks at
  /// once, and others wait to start.
  [[nodiscard]] double dispatch_us(double blocks) const noexcept {
    constexpr double of_start = 0.3; // the rest of a start's cost is what running kernels lose
    return of_start * start_us + blocks / blocks_per_us;
  }

  /// The part of the dispatcher's time that a kernel of so many blocks and microseconds takes,
  /// while it has blocks to place: 0 to 1.
  [[nodiscard]] static double dispatch_use(double blocks, double us) noexcept {
    return std::min(1.0, blocks / (us * blocks_per_us));
  }
  /// Whether a kernel with such a use takes all of the dispatcher's time: kernels that start later,
  /// on any SM, wait until its blocks are placed. From below 1, as times on a part of the SMs are
  /// estimates.
  [[nodiscard]] static bool keeps_dispatcher(double use) noexcept { return use >= 0.9; }
  /// The time of a kernel of one warp a block that keeps the dispatcher, on so many SMs, over that
  /// on as many as the dispatcher can fill.
  [[nodiscard]] static double starts_slower(double sms) noexcept {
    return std::max(1.0, blocks_per_us / (blocks_per_sm_us * sms));
  }
  /// The slow-down of a kernel with such a use, as the dispatcher places the blocks of older ones
  /// first, which use so much together.
  [[nodiscard]] static double waits_for_dispatcher(double use, double older) noexcept {
    constexpr double least = 0.1;
    return std::max(1.0, use / std::max(least, 1 - older));
  }
  /// What the start of a kernel is late beside one on other SMs with such a use, whose blocks have
  /// so many warps and start so often a microsecond on each SM: near blocks_per_sm_us the
  /// dispatcher waits for the SMs.
  [[nodiscard]] static double late_us(double use, double warps, double starts_per_sm) noexcept {
    constexpr double most = 2.5, near_limit = 0.7;
    const bool waits = warps <= 1 && starts_per_sm >= near_limit * blocks_per_sm_us;
    return waits ? most * use * use : 0;
  }

  bool operator==(const replay_law&) const noexcept = default;
};

} // namespace gsched

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/job/operation.hpp>
#include <gsched/sim/detail/laws/scaling.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace gsched::sim {

/// The properties of a kernel, alone on its partition, that the contention law uses. Computed once
/// for an operation and a partition size.
struct kernel_load {
  float memory = 0;     ///< fraction of the device's L2 and DRAM throughput: 0 to 1
  float warps = 1;      ///< warps of one block
  float solo_warps = 1; ///< warps on an SM that holds its blocks
  float fixed = 0;      ///< fraction of a block's time that nothing stretches: 0 to 1
};

/// The surroundings of one running kernel. Averages over the SMs that hold at least one of its
/// blocks; both memory fields sum kernel_load::memory x (blocks resident now / when alone) over the
/// other running kernels.
struct surroundings {
  float own_warps = 0;   ///< its own resident warps on such an SM
  float other_warps = 0; ///< warps of other kernels on such an SM
  float near_memory = 0; ///< of kernels that share an SM with it
  float far_memory = 0;  ///< of kernels that share none
  bool beside = false;   ///< another lane has work on the device
};

/// How concurrent kernels slow one another down: a rate that is evaluated again whenever the
/// running kernels change. Blocks share the throughput of an SM by their warps; all kernels share
/// L2 and DRAM; and any neighbour costs a little.
///
/// Source   fitted on 120 pairs of networks that ran concurrently on one H200, each on three splits
///          of the SMs and sharing all of them (tools/data/corun_pairs.csv). near, other_warps and
///          warps_to_fill are rounded by hand: the optimum is flat.
/// Units    times in microseconds; the others are pure numbers, except warps.
/// Differs  a linear form: no queueing for memory as it saturates, which the pairs did not show.
/// Order    1 / stretch is the speed of a kernel's blocks, relative to their time alone.
/// Cost     a few multiplications and one division a call.
struct contention_law {
  double beside = 0.06; ///< additional time because another lane runs
  double memory = 1.03; ///< additional time for all of the device's memory throughput used
  double near = 0.4;    ///< fraction of that if the user shares the SMs: the rest is in the warps
  double other_warps = 0.25;  ///< weight of a neighbour's warp relative to an own warp
  double warps_to_fill = 7.0; ///< warps that double the time of an SM's first block
  double gap_us = 0.06;       ///< additional gap between kernels, beside another lane
  double gap_memory_us = 2.8; ///< additional gap for all of the memory throughput used

  /// The time of a block here over its time when its kernel is alone. Below 1 only if fewer of its
  /// own blocks are on the SM than alone: each is then faster, and the kernel as a whole is not.
  [[nodiscard]] float stretch(const kernel_load& k, const surroundings& s) const noexcept {
    const double fill = warps_to_fill;
    const double sm = (fill + s.own_warps + other_warps * s.other_warps) / (fill + k.solo_warps);
    const double taken = s.far_memory + near * s.near_memory;
    const double device = 1 + (s.beside ? beside : 0) + memory * taken;
    return static_cast<float>((k.fixed + (1 - k.fixed) * sm) * device);
  }

  /// The addition to the gap before a dependent operation.
  [[nodiscard]] duration gap(const surroundings& s) const noexcept {
    if (!s.beside) return duration::zero();
    return from_us(gap_us + gap_memory_us * (s.near_memory + s.far_memory));
  }
};

/// Estimates a kernel's load from its launch and its scaling. Time that more SMs do not shorten,
/// except the floor, counts as waiting for memory, as far as the kernel has enough warps to request
/// it.
///
/// Differs  no hardware counter is needed: over 15 pairs of network and batch size, the
///          time-weighted mean of `memory` follows the measured L2 throughput with correlation
///          0.97.
template <class Scaling>
[[nodiscard]] kernel_load load_of(const operation& op, const Scaling& table, sm_count partition,
                                  std::uint32_t blocks_per_sm) noexcept {
  constexpr double warps_to_ask = 16; // warps of an SM that saturate memory
  kernel_load load;
  const double alone = to_us(table.at(partition));
  const double floor = std::min(to_us(table.floor()), 0.8 * alone);
  if (op.kind != operation_kind::kernel || !(alone > 0)) {
    load.fixed = 1;
    return load;
  }
  const double blocks = std::max(1.0, static_cast<double>(op.launch.blocks()));
  const double resident = std::max<std::uint32_t>(blocks_per_sm, 1);
  const double warps = std::max(1.0, static_cast<double>(op.launch.threads_per_block()) / 32);
  const double device = table.sms().count();
  const double sms = std::clamp<double>(partition.count(), 1, device);

  const double whole = to_us(table.whole());
  const double half = to_us(table.at(sm_count{(table.sms().count() + 1) / 2}));
  const double work = std::max(whole - to_us(table.floor()), 0.01);
  const double half_work = std::max(half - to_us(table.floor()), 0.01);
  const double scaling = std::clamp(std::log2(half_work / work), 0.0, 1.0);
  const double asking = std::min(1.0, std::min(blocks / device, resident) * warps / warps_to_ask);
  const double part = whole > 0 ? 1 - to_us(table.floor()) / whole : 0;

  load.memory = static_cast<float>(std::min(1.0, part * asking * (1 - scaling) * whole / alone));
  load.warps = static_cast<float>(warps);
  load.solo_warps = static_cast<float>(std::clamp(blocks / sms, 1.0, resident) * warps);
  const double waves = std::max(1.0, std::ceil(blocks / (sms * resident)));
  load.fixed = static_cast<float>(std::min(0.9, floor * waves / alone));
  return load;
}

} // namespace gsched::sim

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/interference/contention_law.hpp>
#include <gsched/interference/demand.hpp>
#include <gsched/interference/start_loss.hpp>
#include <gsched/job/kernel_counters.hpp>
#include <gsched/job/operation.hpp>
#include <gsched/sim/detail/laws/graph_law.hpp>
#include <gsched/sim/detail/laws/scaling.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace gsched::sim {

/// The properties of a kernel, alone on its partition, that contention depends on: its demand in
/// floats, its warps, and how the time of its blocks depends on their number. Computed once for an
/// operation and a partition size.
struct kernel_load {
  /// Of a kernel without counters.
  ///
  /// Source   bench/block_ends.py: the mean of 2,662 kernels of 32 graphs of PyTorch on one H200.
  static constexpr float usual_early = 0.09f;

  std::array<float, resources> use{}; ///< as demand::use, on its partition
  float kept = 0;                     ///< as in demand
  float working_set = 0;
  float conflict = 1;
  float access_cycles = 0;
  bool low_clock = false;
  bool steady = false;       ///< as in demand; it matters to the kernel itself alone
  float warps = 1;           ///< warps of one block
  float solo_warps = 1;      ///< warps on an SM that holds its blocks
  float fixed = 0;           ///< fraction of a block's time that other blocks do not change: 0 to 1
  float bound = 0;           ///< by L2 or DRAM, which all blocks share: see contention_law
  warp_waits waits{};        ///< of its warps, where they are known
  float dram_of_graph = 0;   ///< mean use by its program alone on its partition
  float early = usual_early; ///< see ends_early
  float dispatch = 0; ///< part of the dispatcher's time that it takes, if it has several waves
  float start_loss_us = -1; ///< lost as a kernel starts on other SMs; below 0: not known

  void take(const demand& d) noexcept {
    for (std::size_t r = 0; r < resources; ++r) use[r] = static_cast<float>(d.use[r]);
    kept = static_cast<float>(d.kept);
    working_set = static_cast<float>(d.working_set);
    conflict = static_cast<float>(d.conflict);
    access_cycles = static_cast<float>(d.access_cycles);
    low_clock = d.low_clock;
    steady = d.steady;
    waits = d.waits;
  }

  /// The time of a block beside `own` warps of its kernel on each SM, over its time beside
  /// solo_warps: below 1 if there are fewer, because the blocks of an SM share its throughput by
  /// their warps. Not below own / solo_warps: fewer blocks never do more. While the part `running`
  /// of the blocks that it has at once alone are on the device, each has as much more of the memory
  /// that limits it.
  [[nodiscard]] float stretch(float own, float running, float warps_to_fill) const noexcept {
    const float on_sm = fixed + (1 - fixed) * (warps_to_fill + own) / (warps_to_fill + solo_warps);
    return on_sm - bound * (on_sm - std::min(on_sm, running));
  }
};

/// The demand of a kernel without counters, on all SMs, from its launch and its scaling. Time that
/// more SMs do not shorten, except the floor, counts as waiting for memory, as far as the kernel
/// has enough warps to request it; and the more warps it has, the more instructions it issues.
///
/// Source   the factors are those of least squares over 3,210 kernels with counters
///          (tools/data/profiles), weighted by their part of the time of their network.
/// Differs  what a pipeline takes is not known, so only issue slots and L1 stand for an SM, and
///          count as steady: with bursts, pairs on shared SMs were predicted worse.
[[nodiscard]] inline demand demand_without_counters(double memory, double asking,
                                                    double above_floor) noexcept {
  demand d;
  d.of(resource::issue) = 0.48 * asking;
  d.of(resource::l1) = 0.45 * above_floor;
  d.of(resource::l2) = std::min(1.0, 1.16 * memory);
  d.of(resource::dram) = std::min(1.0, 0.78 * memory);
  d.kept = 0.79;
  d.steady = true;
  return d;
}

/// A kernel's load on a partition: from its counters on all SMs of the device if they are not null,
/// or else from its launch and its scaling. `usual` is the law of graphs, under which the counters
/// were taken; `here` is that of its program on the partition. Copies and memsets on the SMs take
/// nothing. Only counters tell by how much memory limits a kernel.
///
/// Cost     O(resources); no allocation.
template <class Scaling>
[[nodiscard]] kernel_load load_of(const operation& op, const kernel_counters* counters,
                                  const Scaling& table, sm_count partition,
                                  std::uint32_t blocks_per_sm, const contention_law& law,
                                  const graph_law& usual, const graph_law& here) noexcept {
  constexpr double warps_to_ask = 16; // warps of an SM that saturate memory
  kernel_load load;
  const double whole = to_us(table.whole());
  const double alone = to_us(table.at(partition));
  const double floor = std::min(to_us(table.floor()), 0.8 * alone);
  if (op.kind != operation_kind::kernel || !(alone > 0) || !(whole > 0)) {
    load.fixed = 1;
    return load;
  }
  const double blocks = std::max(1.0, static_cast<double>(op.launch.blocks()));
  const double resident = std::max<std::uint32_t>(blocks_per_sm, 1);
  const double warps = std::max(1.0, static_cast<double>(op.launch.threads_per_block()) / 32);
  const double device = table.sms().count();
  const double sms = std::clamp<double>(partition.count(), 1, device);
  load.warps = static_cast<float>(warps);
  load.solo_warps = static_cast<float>(std::clamp(blocks / sms, 1.0, resident) * warps);
  const double waves = std::max(1.0, std::ceil(blocks / (sms * resident)));
  load.fixed = static_cast<float>(std::min(0.9, floor * waves / alone));

  demand d;
  if (counters != nullptr) {
    load.early = static_cast<float>(ends_early(*counters, std::min(1.0, blocks / device)));
    d = demand_of(*counters, profiled_over(counters->us, whole * usual.scale));
    const double on_device =
        std::clamp(blocks / device, 1.0, resident); // of the blocks, on each SM
    const double bytes =
        static_cast<double>(op.launch.static_shared_bytes) + op.launch.dynamic_shared_bytes;
    d.access_cycles = std::max(d.access_cycles, buffered_access_cycles(*counters, bytes * on_device,
                                                                       std::min(blocks, device)));
  } else {
    const double half = to_us(table.at(sm_count{(table.sms().count() + 1) / 2}));
    const double work = std::max(whole - to_us(table.floor()), 0.01);
    const double half_work = std::max(half - to_us(table.floor()), 0.01);
    const double scaling = std::clamp(std::log2(half_work / work), 0.0, 1.0);
    const double asking = std::min(1.0, std::min(blocks / device, resident) * warps / warps_to_ask);
    const double part = 1 - to_us(table.floor()) / whole;
    d = demand_without_counters(part * asking * (1 - scaling), asking, part);
  }
  if (const start_loss at_start = start_loss::of(d.waits, alone); at_start.known())
    load.start_loss_us = static_cast<float>(at_start.lost_us(sms, 1e9));
  const double slower = alone * here.scale / (whole * usual.scale);
  d = on_fewer_sms(d, slower, std::min(blocks, device) / std::min(blocks, sms));
  load.take(d);
  if (counters != nullptr)
    load.bound = static_cast<float>(law.bound_by_memory(d.of(resource::l2), d.of(resource::dram)));
  return load;
}

} // namespace gsched::sim

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/interference/kernel_chain.hpp>
#include <gsched/interference/solo_metrics.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace gsched {

/// Coefficients of the slow-down of two kernels that run at the same time on the same SMs.
///
/// Units    gap_us: microseconds; all others are dimensionless.
struct sharing_law {
  static constexpr std::size_t size = 6;
  /// Warps that fill an SM, as in scaling_law of sim/, where it was fitted on kernels alone.
  static constexpr double warps_to_fill = 7;

  double beside = 0.05; ///< relative slow-down while any other graph runs
  double warps = 0.25;  ///< weight of a neighbour's warp on an SM, over an own warp
  double l2 = 0.2;      ///< relative slow-down if the neighbour takes all L2 throughput
  double dram = 0.2;    ///< relative slow-down if the neighbour takes all DRAM throughput
  double tail = 0.4;    ///< part of a block's time in which the last blocks of a kernel end
  double gap_us = 0.2;  ///< added to the gap between two kernels

  bool operator==(const sharing_law&) const noexcept = default;

  /// All fitted coefficients, in the order of the fields; `of` is the inverse.
  [[nodiscard]] constexpr std::array<double, size> values() const noexcept {
    return {beside, warps, l2, dram, tail, gap_us};
  }
  [[nodiscard]] static constexpr sharing_law of(const std::array<double, size>& v) noexcept {
    sharing_law law;
    law.beside = v[0];
    law.warps = v[1];
    law.l2 = v[2];
    law.dram = v[3];
    law.tail = v[4];
    law.gap_us = v[5];
    return law;
  }
};

/// An older and a younger kernel on the same SMs: the blocks that the younger one gets, and the
/// speeds of both.
///
/// The GPU places the blocks of the older kernel first. While these exceed the SMs' capacity, the
/// younger kernel gets no blocks. Then it gets the space that the older kernel's resident blocks
/// leave on each SM, and the space that these free as they end. Two running kernels share an SM's
/// throughput by their warps, and they share L2 and DRAM.
///
/// Source   the kernel-level estimate that Elvinger et al. ask for: SoCC 2025, section 5.1,
///          doi:10.1145/3772052.3772270. Resources as in its sections 4.2 to 4.4.
/// Differs  pipelines, shared-memory banks and instruction rates are not modelled: profiles have no
///          counters for them, and warps stand for them.
/// Cost     the constructor some 40 divisions; at and with a few.
class kernel_pair {
public:
  kernel_pair(const chain_kernel& older, const chain_kernel& younger, double sms,
              const sharing_law& law) noexcept
      : law_(law), older_{older.l2, older.dram}, younger_{younger.l2, younger.dram},
        copies_(!(older.blocks > 0)), waves_(older.waves(sms)),
        older_warps_(older.warps_per_sm(sms)), younger_warps_(younger.warps_per_sm(sms)),
        older_cover_(older.coverage(sms)), younger_cover_(younger.coverage(sms)) {
    const double all = sms * younger.per_sm;
    const double wanted = std::min(younger.blocks, all);
    free_ = wanted > 0 ? all / wanted : 1;
    room_ = wanted > 0 ? sms * room_per_sm(older, younger, sms) / wanted : 1;
  }

  /// The younger kernel's share of the SMs, and when it changes next.
  struct stage {
    double placed = 1; ///< its blocks, as a part of those that the empty device would hold
    double until = 0;  ///< the older kernel's remaining work at the next change
  };
  /// The stage at which the older kernel has `left` of its work left: 1 to 0.
  [[nodiscard]] stage at(double left) const noexcept {
    const double blocks_left = left * waves_; // in waves
    if (copies_) return {1, 0};
    if (waves_ > 1 && blocks_left > 1 + tiny) return {0, 1 / waves_};
    if (room_ >= 1) return {1, 0};
    const double tail = std::min(1.0, law_.tail);
    if (!(tail > 0) || blocks_left > tail + tiny)
      return {std::min(1.0, room_), std::max(0.0, tail) / waves_};
    const double step = std::clamp(std::ceil(blocks_left / tail * steps - tiny), 1.0, steps);
    const double held = (step - 0.5) / steps;
    return {std::min(1.0, room_ * held + free_ * (1 - held)), (step - 1) / steps * tail / waves_};
  }

  /// Speeds, as parts of the speeds alone, while the younger kernel has `placed` of its blocks.
  struct speeds {
    double older = 1;
    double younger = 1;
  };
  [[nodiscard]] speeds with(double placed) const noexcept {
    const sharing_law& w = law_;
    const double fill = sharing_law::warps_to_fill;
    const double onto_older =
        1 + w.warps * younger_warps_ * placed * younger_cover_ / (older_warps_ + fill);
    const double onto_younger = 1 + w.warps * older_warps_ * older_cover_ / (younger_warps_ + fill);
    const double memory_older =
        1 + w.beside + placed * (w.l2 * younger_.l2 + w.dram * younger_.dram);
    const double memory_younger = 1 + w.beside + w.l2 * older_.l2 + w.dram * older_.dram;
    return {1 / (onto_older * memory_older), placed / (onto_younger * memory_younger)};
  }

private:
  static constexpr double steps = 4; ///< discrete stages of the tail
  static constexpr double tiny = 1e-9;

  [[nodiscard]] static double beside(const chain_kernel& older, double resident,
                                     const chain_kernel& younger) noexcept {
    double fit = younger.per_sm;
    for (std::size_t r = 0; r < older.shares.size(); ++r)
      if (younger.shares[r] > 0)
        fit = std::min(
            fit,
            std::floor(std::max(0.0, 1 - resident * older.shares[r]) / younger.shares[r] + tiny));
    return fit;
  }

  /// The younger kernel's blocks on an SM, averaged over all SMs.
  [[nodiscard]] static double room_per_sm(const chain_kernel& older, const chain_kernel& younger,
                                          double sms) noexcept {
    const double resident = std::min(older.blocks / sms, older.per_sm);
    const double less = std::floor(resident);
    const double more = resident - less; // part of the SMs with one more block of the older kernel
    const double with_less = beside(older, less, younger);
    return more > 0 ? more * beside(older, less + 1, younger) + (1 - more) * with_less : with_less;
  }

  sharing_law law_;
  bandwidth older_, younger_;
  bool copies_; ///< the older operation is a copy or a memset, not a kernel
  double waves_;
  double older_warps_, younger_warps_;
  double older_cover_, younger_cover_;
  double free_ = 1; ///< blocks that the empty device holds, over the blocks of the younger kernel
  double room_ = 1; ///< blocks that fit beside the older kernel, over the same
};

} // namespace gsched

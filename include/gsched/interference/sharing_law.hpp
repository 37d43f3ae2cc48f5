// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/interference/kernel_chain.hpp>
#include <gsched/interference/solo_metrics.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace gsched {

/// How two kernels that run at the same time on the same SMs slow each other.
///
/// Units    times in microseconds; the others are pure numbers.
struct sharing_law {
  static constexpr std::size_t size = 6;
  static constexpr double warps_to_fill = 7; ///< of an SM; as in sim/detail/scaling.hpp, which was
                                             ///< fitted on kernels that were alone

  double beside = 0.05; ///< more time, merely since another graph runs
  double warps = 0.25;  ///< weight of a neighbour's warp on an SM against an own one
  double l2 = 0.2;      ///< more time for all of the L2's throughput taken
  double dram = 0.2;    ///< more time for all of the DRAM's throughput taken
  double tail = 0.4;    ///< of a block's time, in which the last blocks of a kernel end
  double gap_us = 0.2;  ///< longer from kernel to kernel

  bool operator==(const sharing_law&) const noexcept = default;

  /// All that can be fitted, in the order of the fields, and back.
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

/// An older and a younger kernel on the same SMs: what the younger gets, and how fast both are.
///
/// The GPU places the blocks of the older kernel first. So long as it has more than the SMs hold,
/// the younger gets nothing; then it gets what room the resident blocks of the older one leave on
/// each SM, and what becomes free as these end. Where both run, each has its warps' part of an
/// SM's throughput, and L2 and DRAM are shared.
///
/// Source   the kernel-level estimate that Elvinger et al. ask for: SoCC 2025, section 5.1,
///          doi:10.1145/3772052.3772270. Resources as in its sections 4.2 to 4.4.
/// Differs  pipelines, shared-memory banks and instruction rates are not told apart: their counters
///          are not in a profile, and warps stand for them.
/// Cost     the constructor some 40 divisions, stage and speeds a few.
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

  /// What the younger has, and until when.
  struct stage {
    double placed = 1; ///< its blocks, as a part of those that the free device would hold
    double until = 0;  ///< of the older kernel's work is left when that changes
  };
  /// With so much of the older kernel's work left: 1 to 0.
  [[nodiscard]] stage at(double left) const noexcept {
    const double blocks_left = left * waves_; // in times of a block
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

  /// Of their speeds when alone, while the younger has that much.
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
  static constexpr double steps = 4; ///< in which the last blocks end
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

  /// Blocks of the younger on an SM, in the mean over all of them.
  [[nodiscard]] static double room_per_sm(const chain_kernel& older, const chain_kernel& younger,
                                          double sms) noexcept {
    const double resident = std::min(older.blocks / sms, older.per_sm);
    const double less = std::floor(resident);
    const double more = resident - less; // of the SMs have one block more than the others
    const double with_less = beside(older, less, younger);
    return more > 0 ? more * beside(older, less + 1, younger) + (1 - more) * with_less : with_less;
  }

  sharing_law law_;
  bandwidth older_, younger_;
  bool copies_; ///< the older one is no kernel
  double waves_;
  double older_warps_, younger_warps_;
  double older_cover_, younger_cover_;
  double free_ = 1; ///< blocks that the free device holds, over those that the younger has
  double room_ = 1; ///< that fit beside the older, over the same
};

} // namespace gsched

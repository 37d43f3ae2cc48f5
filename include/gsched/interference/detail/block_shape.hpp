// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/interference/contention_law.hpp>
#include <gsched/interference/demand.hpp>
#include <gsched/interference/kernel_chain.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace gsched::detail {

/// The SMs on which graphs run, a few of which stand for all.
struct region {
  double sms = 1;        ///< that it has
  std::size_t first = 0; ///< of those that stand for them
  std::size_t count = 1;
  bool shared = false;  ///< by several graphs; if not, one SM stands for all
  bool endless = false; ///< an endless kernel is among them

  /// Four SMs count as one, but there are sixteen if there are so many; three or two if that leaves
  /// the blocks of an endless kernel whole, which stay where they are.
  void stand_in(double endless_blocks) noexcept {
    endless = endless_blocks > 0;
    constexpr double least = 16;
    double together = 4;
    for (const double n : {4.0, 3.0, 2.0})
      if (endless_blocks > 0 && std::fmod(endless_blocks, n) == 0 &&
          std::fmod(std::round(sms), n) == 0) {
        together = n;
        break;
      }
    const double few = std::max(std::round(sms / together), std::min(std::round(sms), least));
    count = shared ? static_cast<std::size_t>(std::max(1.0, few)) : 1;
  }
  [[nodiscard]] bool has(std::size_t sm) const noexcept { return sm - first < count; }
  /// SMs for which one stands.
  [[nodiscard]] double scale() const noexcept { return sms / static_cast<double>(count); }
};

/// A kernel as blocks on the SMs of a region. Without blocks it is a copy.
///
/// Source   the time of a block by the warps on its SM is that of the simulated GPU. most_waves and
///          how many SMs stand for all were chosen by hand. Blocks of one wave end within twice
///          chain_kernel::early of the last one, so that the mean is as measured; of more waves
///          blocks end a quarter of their time apart: 0.13 in the mean, by bench/block_ends.py.
///          What keeps a resource busy is no fixed time: that counts beside endless kernels, where
///          single kernels beside sleeping blocks show it, but not beside graphs, whose pairs are
///          predicted worse by it.
/// Order    alone, a block takes block_us times stretch() of the warps on its SM, and the last one
///          ends when the kernel has taken its latency.
struct block_shape {
  static constexpr double most_waves = 20; ///< of more waves, each is longer
  /// Of a persistent kernel's blocks, measured. With fewer each is no faster: on 32 SMs of an H200
  /// such kernels take 1.5 to 1.9 times as long as on 64.
  static constexpr double fewest_known = 0.5;

  double blocks = 0;
  double per_sm = 1;
  double at_once = 1;    ///< blocks that run at once, alone
  double block_us = 0;   ///< time of a block alone, beside solo_warps
  double warps = 0;      ///< of a block
  double solo_warps = 0; ///< on an SM, alone
  double fixed = 1;      ///< part of a block's time that other blocks do not change
  double fill = contention_law::warps_to_fill; ///< as warps of others, what its own leave unused
  double busiest = 0;                          ///< of what it uses most of an SM, beside solo_warps
  double computes = 0;                         ///< how far it only computes: see only_computes
  double bound = 0;               ///< by L2 or DRAM, which all blocks share: see contention_law
  double longest = 1;             ///< of blocks that began together, over the time of a block ...
  double apart = 0;               ///< ... and how much earlier the first of them ends
  double common_work = 0;         ///< see common_work_of
  std::array<double, 4> shares{}; ///< parts of an SM that a block takes
  double least_split = 0;         ///< see chain_kernel
  double set_split = 0;

  block_shape() = default;
  block_shape(const chain_kernel& k, const region& r, const contention_law& law) noexcept {
    if (!(k.blocks > 0)) return;
    bound = law.bound_by_memory(k.takes.of(resource::l2), k.takes.of(resource::dram));
    if (!r.shared) {
      blocks = 1;
      block_us = k.us;
      warps = solo_warps = k.warps_per_sm(r.sms);
      return;
    }
    constexpr double drift = 0.25, least_apart = 0.02;
    const auto sms = static_cast<double>(r.count);
    per_sm = k.resident > 0 ? k.resident : k.per_sm;
    warps = k.warps;
    shares = k.shares;
    least_split = k.least_split;
    set_split = k.set_split;
    fixed = k.fixed * (r.endless ? 1 - used_most(k.takes, law) : 1);
    const double full = sms * per_sm;
    blocks = std::clamp(std::round(k.blocks / r.scale()), 1.0, std::ceil(most_waves * full));
    at_once = std::min(blocks, full);
    solo_warps = std::clamp(blocks / sms, 1.0, per_sm) * warps;
    busiest = std::max(k.takes.busiest(),
                       contention_law::port_cycles_of_tensor * k.takes.of(resource::tensor));
    computes = only_computes(k.takes.waits);
    fill = unused_warps(k.takes, law);
    if (blocks <= full) common_work = k.common_work;
    const double whole = std::ceil(blocks / full) - 1; // waves before the last
    const double last = std::ceil((blocks - whole * full) / sms);
    if (whole > 0) {
      apart = drift;
      longest = 1 + drift / 2;
    } else {
      apart = std::max(least_apart, 2 * (k.early - leave_early(sms)));
    }
    // Where memory limits them, the last blocks are faster.
    const double faster = whole > 0 ? 0 : bound * apart / 2;
    block_us = k.us / (whole * stretch(per_sm * warps) + stretch(last * warps)) / (1 - faster);
  }

  /// How much earlier, in the mean, blocks of one wave end because some SMs have one less of them.
  [[nodiscard]] double leave_early(double sms) const noexcept {
    const double few = std::floor(blocks / sms), many = std::ceil(blocks / sms);
    if (few < 1 || few == many) return 0;
    return (many - blocks / sms) * (1 - stretch(few * warps) / stretch(many * warps));
  }

  /// The time of a block beside so many warps of its kernel, over its time beside solo_warps:
  /// blocks of an SM share its throughput, and the first warps are the fastest.
  [[nodiscard]] double stretch(double own) const noexcept {
    double time = (fill + own) / (fill + solo_warps);
    if (computes > 0) time += computes * (computing(own) / computing(solo_warps) - time);
    return fixed + (1 - fixed) * time;
  }

  /// The time of so many warps that only compute, over that of a few: they do not slow one another
  /// until they fill a pipeline.
  [[nodiscard]] double computing(double own) const noexcept {
    constexpr double norm = 16;
    return std::pow(1 + std::pow(busiest * own / std::max(1.0, solo_warps), norm), 1 / norm);
  }

  /// The largest use of anything, over what can be reached: 0 to 1.
  [[nodiscard]] static double used_most(const demand& d, const contention_law& law) noexcept {
    return std::min(1.0, std::max({d.busiest(), d.of(resource::l2) / std::max(law.l2, 0.01),
                                   d.of(resource::dram) / std::max(law.dram, 0.01)}));
  }

  /// What its warps leave unused of what they use most, in warps: within bounds, as what they use
  /// is known by its mean. The lower bound falls where that is nearly all of the time.
  [[nodiscard]] double unused_warps(const demand& d, const contention_law& law) const noexcept {
    constexpr double most = 16;
    constexpr double nearly_all = 0.8, never_none = 0.01;
    constexpr double tiny = 1e-3;
    const double used = std::max(tiny, used_most(d, law));
    const double least = std::clamp((1 - used) / (1 - nearly_all), never_none, 1.0);
    return std::clamp(solo_warps * (1 / used - 1), contention_law::warps_to_fill * least, most);
  }

  /// The same for an SM with `here` of the `resident` blocks: the fewer there are on the device,
  /// the more of L2 and DRAM each one has, and of what else limits all blocks of a persistent
  /// kernel.
  [[nodiscard]] double block_time(double here, double resident) const noexcept {
    const double on_sm = stretch(here * warps);
    if (common_work > 0)
      return on_sm * std::pow(std::clamp(resident / at_once, fewest_known, 1.0), 1 - common_work);
    return on_sm - bound * (on_sm - std::min(on_sm, resident / at_once));
  }

  /// All the work of a persistent kernel, in blocks' times.
  [[nodiscard]] double queued_work() const noexcept {
    return common_work > 0 ? blocks * (longest - apart / 2) : 0;
  }
  /// What is left of it as blocks find none that are by the part `early` of `apart` before the
  /// last.
  [[nodiscard]] double queued_at_end(double early) const noexcept {
    return blocks * apart * early * early / 2;
  }

  /// How many blocks fit on an SM that holds `here` of them and has these parts left.
  [[nodiscard]] double fit(const std::array<double, 4>& left, double here) const noexcept {
    constexpr double tiny = 1e-6;
    double most = per_sm - here;
    for (std::size_t i = 0; i < left.size(); ++i)
      if (shares[i] > 0) most = std::min(most, std::floor(left[i] / shares[i] + tiny));
    return std::max(0.0, most);
  }
};

} // namespace gsched::detail

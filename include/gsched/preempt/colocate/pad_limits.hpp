// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/number_text.hpp>
#include <gsched/interference/contention_law.hpp>
#include <gsched/interference/demand.hpp>
#include <gsched/interference/kernel_chain.hpp>
#include <gsched/interference/surroundings.hpp>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace gsched {

namespace detail {

/// The time of a kernel as the first blocks of a grid that has `resident` blocks on the device at
/// once, over its time as all of them. The larger a grid, the deeper it fills one SM of each pair
/// of SMs before the other, so two blocks of the kernel may share an SM while others have none.
///
/// Source   kernels of 36 to 256 blocks in grids of up to 1,056 on one H200 (gsched.gpu.padding
///          --parts pairs): 100 blocks in 228 are as fast as alone, in 264 1.3 to 1.8 times slower;
///          64 blocks in any grid are as fast, and 256 up to 384, and in 452 1.5 times slower.
[[nodiscard]] inline double slowed_by_placement(const chain_kernel& k, double resident, double sms,
                                                const contention_law& law) noexcept {
  const double alone = std::ceil(k.blocks / sms);
  const double depth =
      std::min(std::floor(resident / sms), std::ceil(k.blocks / std::ceil(sms / 2)));
  const double fullest = std::min(depth, std::max(1.0, k.per_sm));
  if (!(fullest > alone)) return 1;
  const double before = contention_law::warps_to_fill + alone * k.warps;
  const double bound = law.bound_by_memory(k.takes.of(resource::l2), k.takes.of(resource::dram));
  return 1 + (1 - bound) * (fullest - alone) * k.warps / before;
}

} // namespace detail

/// The predicted time of a real-time kernel in one grid with `blocks` blocks of a best-effort
/// kernel that follow its own, over its time alone.
///
/// The blocks take the SMs that the real-time kernel leaves idle first, and then share all SMs; the
/// real-time kernel is the older one there. They take of L2 and DRAM in proportion to their number,
/// while they run. A real-time kernel of one wave ends with its slowest block, so the fullest SM
/// counts.
///
/// Source   contention_law; the placement is that of pad_capacity and idle_sms, and of larger grids
///          as measured: see detail::slowed_by_placement.
/// Order    at least 1; never falls with `blocks`. The law counts the traffic of a kernel on other
///          SMs by what its warps wait for, and of one on the same SMs by more: blocks that share
///          SMs count at least as much as those that the idle SMs alone would hold.
/// Cost     that of the law, twice where blocks share SMs; no allocation.
/// Threads  a pure function.
[[nodiscard]] inline double padded_slowdown(const chain_kernel& real_time,
                                            const chain_kernel& best_effort, std::uint32_t blocks,
                                            double sms, const contention_law& law) noexcept {
  const double at_most = sms * std::max(1.0, best_effort.per_sm);
  const double most = std::max(1.0, std::min(best_effort.blocks, at_most));
  const double at_once = std::min<double>(blocks, most);
  const double idle = std::max(0.0, sms - real_time.blocks);
  const double alone = std::clamp(best_effort.blocks / sms, 1.0, std::max(1.0, best_effort.per_sm));
  double on_each = std::max(0.0, at_once - idle) / sms; // of the real-time kernel's SMs
  if (real_time.blocks <= sms * real_time.per_sm) on_each = std::ceil(on_each);

  const auto beside = [&](double near, double resident) {
    demand takes = best_effort.takes;
    takes.stores = takes.waits.blocked * std::min(1.0, resident / sms); // on so many of the SMs
    surroundings around;
    around.add(takes, near, resident / most, alone * best_effort.warps, false);
    return law.slowdown(real_time.takes, real_time.warps_per_sm(sms), around);
  };
  double slow = beside(0, std::min(at_once, idle));
  if (on_each > 0) slow = std::max(slow, beside(on_each / alone, at_once));
  const double wave_us = best_effort.us / std::max(1.0, std::ceil(best_effort.blocks / at_most));
  const double beside_us = wave_us * std::max(1.0, blocks / most);
  const bool ends_earlier = beside_us > 0 && beside_us < real_time.us;
  if (ends_earlier) slow = 1 + (slow - 1) * beside_us / real_time.us;

  return slow * detail::slowed_by_placement(real_time, real_time.blocks + at_once, sms, law);
}

/// How many blocks of each kernel of a best-effort program may pad each kernel of a real-time
/// program: the most beside which the law of contention predicts that the real-time kernel takes at
/// most `most_slowdown` times as long as alone. A table, made once for two programs.
///
/// Kernels without counters have no limit: rules 1 and 2 decide alone.
///
/// Source   Elvinger et al., SoCC 2025, section 5.1, doi:10.1145/3772052.3772270: co-location
///          chosen by predicted slow-downs of kernels.
/// Differs  from REEF's selection (TOCS 2025, section 5.2), which counts free CUs and time, and
///          nothing that both kernels share. All variants of a kernel are taken to demand what the
///          profiled one does.
/// Errors   the constructor: bad_option for a slow-down below 1, or chains on different numbers of
///          SMs.
/// Cost     set-up some 600 ns a pair of kernels in the mean, more where the limit is between 0 and
///          all blocks; 4 bytes a pair. most() O(1).
/// Threads  immutable after construction.
class pad_limits {
public:
  static constexpr double default_slowdown = 1.05;
  static constexpr std::uint32_t no_limit = std::numeric_limits<std::uint32_t>::max();

  /// Operation i of a program is kernel i of its chain. Both chains are on all SMs of the device.
  pad_limits(const kernel_chain& real_time, const kernel_chain& best_effort,
             const contention_law& law, double most_slowdown = default_slowdown)
      : width_(best_effort.kernels.size()) {
    if (!(most_slowdown >= 1))
      throw error(errc::bad_option,
                  "padding: slow-down of " + number_text(most_slowdown) + ", expected at least 1");
    if (real_time.sms != best_effort.sms)
      throw error(errc::bad_option, "padding: kernels on " + number_text(real_time.sms) + " and " +
                                        number_text(best_effort.sms) +
                                        " SMs, expected the same number");
    most_.reserve(real_time.kernels.size() * width_);
    for (const chain_kernel& r : real_time.kernels)
      for (const chain_kernel& b : best_effort.kernels)
        most_.push_back(limit(r, b, real_time.sms, law, most_slowdown));
  }

  /// The most blocks of that best-effort operation beside that real-time operation.
  [[nodiscard]] std::uint32_t most(std::size_t real_time, std::size_t best_effort) const noexcept {
    assert(best_effort < width_ && real_time * width_ + best_effort < most_.size());
    return most_[real_time * width_ + best_effort];
  }

private:
  [[nodiscard]] static std::uint32_t limit(const chain_kernel& r, const chain_kernel& b, double sms,
                                           const contention_law& law, double most) noexcept {
    if (!(r.blocks > 0) || !(b.blocks > 0) || r.takes == demand{} || b.takes == demand{})
      return no_limit;
    const auto within = [&](std::uint32_t blocks) {
      return padded_slowdown(r, b, blocks, sms, law) <= most;
    };
    std::uint32_t bad = static_cast<std::uint32_t>(std::min(b.blocks, 2147483647.0));
    if (within(bad)) return no_limit;
    std::uint32_t good = 0;
    while (bad - good > 1) {
      const std::uint32_t middle = good + (bad - good) / 2;
      (within(middle) ? good : bad) = middle;
    }
    return good;
  }

  std::size_t width_;               ///< operations of the best-effort program
  std::vector<std::uint32_t> most_; ///< by real-time operation, then best-effort operation
};

} // namespace gsched

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/job/kernel_counters.hpp>

#include <algorithm>
#include <cmath>
#include <optional>

namespace gsched {

/// What a graph loses as a kernel of another graph starts on other SMs. A GPU empties the L1 caches
/// and the caches of constants of all its SMs as any kernel starts, and running kernels read again
/// what they had there. Kernels of one thread that do nothing measure it (`measure starts`,
/// `interference calibrate --starts`). Where it is not known, each kernel's is estimated from its
/// waits; without these replay_law::lost_us counts.
///
/// Source   gsched.gpu.block_starts on one H200; how it was chosen: docs/research/start_loss.md.
/// Units    microseconds, 0 to `most`.
/// Order    lost_us() never falls with `us`, the SMs or the time.
struct start_loss {
  static constexpr double most = 100;
  static constexpr double on_sms = 64; ///< `us` is of a graph on so many SMs
  /// After so long 63% of what running kernels reuse is in the caches again, so a start soon after
  /// another costs less. Slow-downs beside kernels of 2 and of 8 us tell it.
  static constexpr double refill_us = 4.5;

  std::optional<double> us{};

  bool operator==(const start_loss&) const noexcept = default;

  /// Estimated for a kernel of so many microseconds; not known if its waits are not. As it starts
  /// its own caches are empty, too: so what its warps wait for instructions and constants then is
  /// what they wait again.
  ///
  /// Source   slow-downs of 122 graphs beside kernels that do nothing, on one H200: the estimate
  ///          leaves 25% of the variance of what was measured.
  [[nodiscard]] static start_loss of(const warp_waits& w, double kernel_us) noexcept {
    constexpr double again = 2.1;
    if (w == warp_waits{}) return {};
    return {again * w.instructions * std::min(kernel_us, refill_us)};
  }

  [[nodiscard]] bool known() const noexcept { return us.has_value(); }
  /// Lost by a graph on so many SMs, where the last kernel of any graph started `since_us` before.
  /// 0 where it is not known.
  [[nodiscard]] double lost_us(double sms, double since_us) const noexcept {
    return us.value_or(0) * std::sqrt(sms / on_sms) * refilled(since_us);
  }
  /// The part of what running kernels reuse that is in the caches so long after a start: 0 to 1.
  [[nodiscard]] static double refilled(double since_us) noexcept {
    return 1 - std::exp(-since_us / refill_us);
  }
};

} // namespace gsched

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/preempt/colocate/candidate.hpp>
#include <gsched/preempt/colocate/capacity.hpp>
#include <gsched/preempt/colocate/options.hpp>
#include <gsched/preempt/colocate/rules.hpp>

#include <algorithm>
#include <cstdint>

namespace gsched {

/// Measured properties of a device that rules 1 and 2 do not consider.
struct quiet_options {
  sm_count sms{};
  /// limit of the memory traffic of both kernels: a fraction of a copy's rate; 0: none
  double bytes_per_ns = 0;
  duration gap{};     ///< gap between two kernels, which all kernel and block times include
  double share = 0.9; ///< fraction of the real-time kernel's time that co-runners' blocks may use
  /// accepted overhead of a padded kernel without co-runners over the plain one
  double overhead = 0.02;
};

/// A kernel, and the bytes that all its blocks read and write.
struct moving_kernel {
  const kernel_variant& facts;
  std::uint64_t bytes = 0;
  duration plain{}; ///< of a real-time kernel: its time as a kernel of its own; 0: there is none
};

/// Whether a real-time kernel is as fast in a padded kernel as alone. Compilers generate different
/// code for a function in different kernels, and no co-runner compensates the loss.
[[nodiscard]] constexpr bool worth_padding(const moving_kernel& real_time,
                                           const quiet_options& o) noexcept {
  return real_time.plain <= duration::zero() ||
         static_cast<double>(real_time.facts.kernel_time.count()) <=
             static_cast<double>(real_time.plain.count()) * (1 + o.overhead);
}

/// Rule 3: limits the co-runner's blocks to one on each SM that the real-time kernel leaves idle;
/// blocks go to the emptiest SM, those of the real-time kernel first. Its own blocks then share no
/// cache, no instruction issue and no shared memory.
[[nodiscard]] constexpr std::uint32_t idle_sms(const kernel_variant& real_time,
                                               sm_count sms) noexcept {
  return sms.count() > real_time.blocks ? sms.count() - real_time.blocks : 0;
}

/// Rule 4: the number of co-runner's blocks for which the traffic of both kernels, in the time of
/// the real-time kernel without the gap, stays within the device's rate.
[[nodiscard]] inline std::uint32_t blocks_within_rate(const moving_kernel& real_time,
                                                      const moving_kernel& corunner,
                                                      const quiet_options& o) noexcept {
  if (o.bytes_per_ns <= 0 || corunner.bytes == 0) return corunner.facts.blocks;
  const duration own = std::max(real_time.facts.kernel_time - o.gap, duration{1});
  const double all = o.bytes_per_ns * static_cast<double>(own.count());
  const double left = std::max(all - static_cast<double>(real_time.bytes), 0.0);
  const double each = static_cast<double>(corunner.bytes) / corunner.facts.blocks;
  return static_cast<std::uint32_t>(
      std::min(left / each, static_cast<double>(corunner.facts.blocks)));
}

/// The number of co-runner's blocks that may run beside a real-time kernel such that it takes no
/// longer than alone: by rule 1, rule 2 with the needed level, and rules 3 and 4, if the kernel is
/// worth padding. `corunner.facts.level` is the level of both together. 0: none.
///
/// Differs  from REEF: its rules count slots and time. On a GPU whose SMs share a cache level and
///          whose memory one kernel can saturate, pairs that meet only those rules slow a real-time
///          kernel down by a third on average (gsched.gpu.padding --parts pairs).
[[nodiscard]] inline std::uint32_t quiet_blocks(const moving_kernel& real_time,
                                                const moving_kernel& corunner,
                                                const quiet_options& o) {
  if (!worth_padding(real_time, o)) return 0;
  // Both times include the gap; the parts without it are compared.
  const duration own = real_time.facts.kernel_time - o.gap;
  const duration block = corunner.facts.block_time - o.gap;
  if (static_cast<double>(block.count()) >= o.share * static_cast<double>(own.count())) return 0;
  pad_options places;
  places.sms = o.sms;
  places.level = level_rule::needed;
  pad_capacity room(real_time.facts, places);
  return std::min({room.take(corunner.facts, corunner.facts.blocks),
                   idle_sms(real_time.facts, o.sms), blocks_within_rate(real_time, corunner, o)});
}

} // namespace gsched

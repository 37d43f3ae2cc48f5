// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/preempt/colocate/candidate.hpp>
#include <gsched/preempt/colocate/options.hpp>
#include <gsched/preempt/colocate/room.hpp>
#include <gsched/preempt/colocate/rules.hpp>

#include <algorithm>
#include <cstdint>

namespace gsched {

/// What rules 1 and 2 do not see of a device, measured on it.
struct quiet_options {
  sm_count sms{};
  double bytes_per_ns = 0; ///< that both may move together: a part of what a copy reaches; 0: any
  duration gap{};          ///< from one kernel to the next, which is in all kernel and block times
  double share = 0.9;      ///< of the real-time kernel's time that guests' blocks may use
  double overhead = 0.02;  ///< what a padded kernel without guests may take beyond the plain one
};

/// A kernel, and how many bytes all its blocks read and write.
struct moving_kernel {
  const kernel_variant& facts;
  std::uint64_t bytes = 0;
  duration plain{}; ///< of a real-time one: its time as a kernel of its own; 0: there is none
};

/// Whether a real-time kernel is as fast as a part of a padded kernel as it is by itself: compilers
/// do not make the same of a function everywhere, and what is lost so no guest makes good.
[[nodiscard]] constexpr bool worth_padding(const moving_kernel& real_time,
                                           const quiet_options& o) noexcept {
  return real_time.plain <= duration::zero() ||
         static_cast<double>(real_time.facts.kernel_time.count()) <=
             static_cast<double>(real_time.plain.count()) * (1 + o.overhead);
}

/// Rule 3: blocks of a guest so that there is one at most on each SM that the real-time kernel
/// leaves idle: blocks go to the emptiest SM, the real-time kernel's first. Its own then share
/// no cache, no instruction issue and no shared memory.
[[nodiscard]] constexpr std::uint32_t idle_sms(const kernel_variant& real_time,
                                               sm_count sms) noexcept {
  return sms.count() > real_time.blocks ? sms.count() - real_time.blocks : 0;
}

/// Rule 4: how many blocks of a guest there may be so that what both move in the time that the
/// real-time kernel itself runs, without the gap to the next one, is within the device's rate.
[[nodiscard]] inline std::uint32_t blocks_within_rate(const moving_kernel& real_time,
                                                      const moving_kernel& guest,
                                                      const quiet_options& o) noexcept {
  if (o.bytes_per_ns <= 0 || guest.bytes == 0) return guest.facts.blocks;
  const duration own = std::max(real_time.facts.kernel_time - o.gap, duration{1});
  const double all = o.bytes_per_ns * static_cast<double>(own.count());
  const double left = std::max(all - static_cast<double>(real_time.bytes), 0.0);
  const double each = static_cast<double>(guest.bytes) / guest.facts.blocks;
  return static_cast<std::uint32_t>(std::min(left / each, static_cast<double>(guest.facts.blocks)));
}

/// How many blocks of a guest may run beside a real-time kernel so that it takes no longer than
/// alone: by rule 1, rule 2 with the level that it needs, and rules 3 and 4, if it is worth
/// padding. `guest.facts.level` is that of both together. 0: none.
///
/// Differs  from REEF: its rules count places for blocks and time. On a GPU whose SMs share a level
///          of cache and whose memory one kernel can use up, pairs that meet those alone slow a
///          real-time kernel by a third on average (gsched.gpu.padding --parts pairs).
[[nodiscard]] inline std::uint32_t
quiet_blocks(const moving_kernel& real_time, const moving_kernel& guest, const quiet_options& o) {
  if (!worth_padding(real_time, o)) return 0;
  // Times with the gap in both, so that what is compared is the part without it.
  const duration own = real_time.facts.kernel_time - o.gap;
  const duration block = guest.facts.block_time - o.gap;
  if (static_cast<double>(block.count()) >= o.share * static_cast<double>(own.count())) return 0;
  pad_options places;
  places.sms = o.sms;
  places.level = level_rule::needed;
  pad_room room(real_time.facts, places);
  return std::min({room.take(guest.facts, guest.facts.blocks), idle_sms(real_time.facts, o.sms),
                   blocks_within_rate(real_time, guest, o)});
}

} // namespace gsched

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/preempt/colocate/candidate.hpp>

#include <cstdint>

namespace gsched {

/// Rule 1: one block of the best-effort kernel takes less time than the whole real-time kernel,
/// because the padded kernel ends with its slowest block.
///
/// Source   REEF, ACM TOCS 44(1), 2025, doi:10.1145/3768622, section 5.2.
[[nodiscard]] constexpr bool rule_1(const kernel_variant& real_time,
                                    const kernel_variant& best_effort) noexcept {
  return best_effort.block_time < real_time.kernel_time;
}

/// Rule 2: the best-effort kernel has at least the occupancy level of the real-time kernel, because
/// the padded kernel has the minimum of its parts' levels.
///
/// Source   REEF, doi:10.1145/3768622, section 5.2. It says "higher"; with equal levels the minimum
///          is the real-time kernel's level too, so they pass.
[[nodiscard]] constexpr bool rule_2(const kernel_variant& real_time,
                                    const kernel_variant& best_effort) noexcept {
  return best_effort.level >= real_time.level;
}

/// The lowest level at which the kernel's blocks still run in as few waves as at its own level.
[[nodiscard]] constexpr std::uint32_t needed_level(const kernel_variant& k, sm_count sms) noexcept {
  const std::uint64_t waves = waves_of(k.blocks, std::uint64_t{sms.count()} * k.level);
  return waves_of(k.blocks, sms.count() * waves);
}

/// The level that the real-time kernel must keep: the form of rule 2.
enum class level_rule : std::uint8_t {
  own,    ///< the level that it has alone: rule_2
  needed, ///< the level that it needs: rule_2_needed
};

/// Rule 2 with the level that the real-time kernel needs.
///
/// Differs  from REEF: a kernel of 100 blocks on 132 SMs has one block on an SM, whether an SM
///          holds 1 or 16 of them. Most kernels of a network at batch size 1 are like this: they
///          need level 1 or 2, although 8 to 16 would fit, and rule 2 as written excludes every
///          best-effort kernel with a lower level, without a benefit. A lower level only removes
///          slots beside other blocks on the same SM, which they do not use.
[[nodiscard]] constexpr bool rule_2_needed(const kernel_variant& real_time,
                                           const kernel_variant& best_effort,
                                           sm_count sms) noexcept {
  return best_effort.level >= needed_level(real_time, sms);
}

[[nodiscard]] constexpr std::uint32_t required_level(const kernel_variant& real_time,
                                                     level_rule rule, sm_count sms) noexcept {
  return rule == level_rule::own ? real_time.level : needed_level(real_time, sms);
}

/// The conditions for a best-effort kernel to be added: block time less than `time`, level at least
/// `level`. Rules 1 and 2 are the terms of a real-time kernel without co-runners.
struct pad_terms {
  duration time{};
  std::uint32_t level = 0;

  [[nodiscard]] constexpr bool admit(const kernel_variant& best_effort) const noexcept {
    return best_effort.block_time < time && best_effort.level >= level;
  }
  bool operator==(const pad_terms&) const noexcept = default;
};

[[nodiscard]] constexpr pad_terms terms_of(const kernel_variant& real_time, level_rule rule,
                                           sm_count sms) noexcept {
  return {real_time.kernel_time, required_level(real_time, rule, sms)};
}

} // namespace gsched

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/preempt/colocate/candidate.hpp>

#include <cstdint>

namespace gsched {

/// Rule 1: one block of the best-effort kernel takes less time than the whole real-time kernel, as
/// the padded kernel ends with its slowest block.
///
/// Source   REEF, ACM TOCS 44(1), 2025, doi:10.1145/3768622, section 5.2.
[[nodiscard]] constexpr bool rule_1(const kernel_variant& real_time,
                                    const kernel_variant& best_effort) noexcept {
  return best_effort.block_time < real_time.kernel_time;
}

/// Rule 2: the best-effort kernel has the real-time kernel's occupancy level or a higher one, as
/// the padded kernel has the least of its parts'.
///
/// Source   REEF, doi:10.1145/3768622, section 5.2. It says "higher"; of equal levels the
///          least is the real-time one's too, so equal ones pass.
[[nodiscard]] constexpr bool rule_2(const kernel_variant& real_time,
                                    const kernel_variant& best_effort) noexcept {
  return best_effort.level >= real_time.level;
}

/// The least level at which the kernel's blocks still run in as few waves as at its own.
[[nodiscard]] constexpr std::uint32_t needed_level(const kernel_variant& k, sm_count sms) noexcept {
  const std::uint64_t waves = waves_of(k.blocks, std::uint64_t{sms.count()} * k.level);
  return waves_of(k.blocks, sms.count() * waves);
}

/// Which level the real-time kernel must keep: the form of rule 2.
enum class level_rule : std::uint8_t {
  own,    ///< the one that it has alone: rule_2
  needed, ///< the one that it needs: rule_2_needed
};

/// Rule 2, sharpened: what counts is the level that the real-time kernel needs.
///
/// Differs  from REEF: a kernel of 100 blocks on 132 SMs has one block on an SM whether an SM would
///          hold 1 or 16 of them. Most kernels of a network at batch size 1 are so: they need level
///          1 or 2 though 8 to 16 would fit, and rule 2 as written forbids them every best-effort
///          kernel of a lower level, at no gain. What a lower level takes from them is room beside
///          other blocks on the same SM, which they do not use.
[[nodiscard]] constexpr bool rule_2_needed(const kernel_variant& real_time,
                                           const kernel_variant& best_effort,
                                           sm_count sms) noexcept {
  return best_effort.level >= needed_level(real_time, sms);
}

[[nodiscard]] constexpr std::uint32_t required_level(const kernel_variant& real_time,
                                                     level_rule rule, sm_count sms) noexcept {
  return rule == level_rule::own ? real_time.level : needed_level(real_time, sms);
}

/// What a best-effort kernel has to meet to be added: its block time less than `time`, its level no
/// less than `level`. Rules 1 and 2 are the terms of a real-time kernel that nothing was added to.
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

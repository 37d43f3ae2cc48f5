// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/preempt/colocate/capacity.hpp>
#include <gsched/preempt/colocate/options.hpp>
#include <gsched/preempt/colocate/pad_limits.hpp>
#include <gsched/preempt/colocate/quiet.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace padding {

/// The selections of a co-runner's blocks for a real-time kernel. All keep rule 1.
enum class selection : std::uint8_t {
  paper,     ///< rule 2 as in the paper: the real-time kernel's own level; all slots
  needed,    ///< rule 2 with the needed level, as pad_planner has it; all slots
  apart,     ///< as many blocks as SMs that it leaves idle, so that none is shared
  quiet,     ///< these, limited by the GPU's memory rate: quiet_blocks
  within_5,  ///< needed, limited by pad_limits at a predicted slow-down of 1.05
  within_10, ///< the same at 1.1
  within_20  ///< the same at 1.2
};
inline constexpr std::array every_selection{
    selection::paper,    selection::needed,    selection::apart,    selection::quiet,
    selection::within_5, selection::within_10, selection::within_20};

[[nodiscard]] constexpr const char* name_of(selection s) noexcept {
  constexpr std::array<const char*, every_selection.size()> names{
      "paper", "needed", "apart", "quiet", "within_5", "within_10", "within_20"};
  return names[static_cast<std::size_t>(s)];
}

/// The largest predicted slow-down of a selection by pad_limits; empty for others.
[[nodiscard]] constexpr std::optional<double> predicted_limit(selection s) noexcept {
  if (s == selection::within_5) return 1.05;
  if (s == selection::within_10) return 1.1;
  if (s == selection::within_20) return 1.2;
  return std::nullopt;
}

/// The slow-down beyond which a pair that the selection admits is too slow.
[[nodiscard]] constexpr double limit_of(selection s) noexcept {
  return predicted_limit(s).value_or(gsched::pad_limits::default_slowdown);
}

/// The number of blocks of a co-runner beside a real-time kernel; 0: not selected.
///
/// `corunner.facts.level` is the level of both together. `most` is what pad_limits allows, used
/// where the selection has a predicted limit.
[[nodiscard]] inline std::uint32_t blocks_for(selection by, const gsched::moving_kernel& real_time,
                                              const gsched::moving_kernel& corunner,
                                              const gsched::quiet_options& quiet,
                                              std::uint32_t most) {
  if (by == selection::quiet) return quiet_blocks(real_time, corunner, quiet);
  gsched::pad_options o;
  o.sms = quiet.sms;
  o.level = by == selection::paper ? gsched::level_rule::own : gsched::level_rule::needed;
  gsched::pad_capacity room(real_time.facts, o);
  const std::uint32_t all = corunner.facts.blocks;
  const std::uint32_t n =
      room.take(corunner.facts, predicted_limit(by) ? std::min(all, most) : all);
  return by == selection::apart ? std::min(n, idle_sms(real_time.facts, o.sms)) : n;
}

} // namespace padding

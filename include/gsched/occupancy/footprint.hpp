// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/launch.hpp>
#include <gsched/core/quantity.hpp>
#include <gsched/job/operation.hpp>
#include <gsched/notify/grouping.hpp>
#include <gsched/occupancy/calculator.hpp>
#include <gsched/occupancy/demand.hpp>
#include <gsched/occupancy/limits.hpp>

#include <algorithm>
#include <cassert>
#include <cstdint>

namespace gsched {

/// The demand of a launch; a demand of no blocks if it fits on no SM.
///
/// Differs  the driver's own count of blocks, if known, overrides the calculator's, because the
///          driver knows the attributes of the function. A kernel that has run fits, whatever the
///          calculator says; it then counts with at most the resources of an SM.
[[nodiscard]] constexpr kernel_demand demand_of(const architecture_limits& l, const launch_shape& s,
                                                std::uint32_t driver_blocks_per_sm = 0) noexcept {
  const std::uint32_t ours = max_blocks_per_sm(l, s);
  if (ours == 0 && driver_blocks_per_sm == 0) return {};
  const block_allocation a = allocation_of(l, s);
  kernel_demand d;
  d.blocks = s.blocks();
  d.max_blocks_per_sm =
      driver_blocks_per_sm != 0 ? std::min(driver_blocks_per_sm, l.max_blocks) : ours;
  d.threads = std::min(a.warps * warp_threads, l.max_threads);
  d.registers = std::min(a.registers, l.registers);
  d.shared_bytes = std::min(a.shared_bytes, l.shared_bytes);
  return d;
}

/// The share of that many SMs that the blocks occupy: all blocks, or as many as fit at once.
[[nodiscard]] constexpr double fill_of(const kernel_demand& d, sm_count sms) noexcept {
  assert(sms.count() > 0);
  const std::uint64_t at_once = std::uint64_t{d.max_blocks_per_sm} * sms.count();
  if (at_once == 0) return 0.0;
  return d.blocks >= at_once ? 1.0 : static_cast<double>(d.blocks) / static_cast<double>(at_once);
}

/// The number of waves in which all blocks run.
[[nodiscard]] constexpr std::uint64_t waves_of(const kernel_demand& d, sm_count sms) noexcept {
  const std::uint64_t at_once = std::uint64_t{d.max_blocks_per_sm} * sms.count();
  return at_once == 0 ? 0 : d.blocks / at_once + (d.blocks % at_once != 0 ? 1 : 0);
}

/// The footprint of one operation. Copies and memsets occupy no SM.
[[nodiscard]] constexpr footprint footprint_of(const architecture_limits& l, sm_count sms,
                                               const operation& op) noexcept {
  footprint f;
  f.time = op.expected;
  if (op.kind != operation_kind::kernel) return f;
  f.widest = demand_of(l, op.launch, op.max_blocks_per_sm);
  f.fill = fill_of(f.widest, sms);
  f.peak = f.fill;
  f.blocks = f.widest.blocks;
  f.words = words_of(f.widest.blocks);
  return f;
}

} // namespace gsched

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/launch.hpp>
#include <gsched/occupancy/limits.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

namespace gsched {

inline constexpr std::uint32_t warp_threads = 32;

/// The split of an SM's memory between shared memory and L1 that a program prefers: the share of
/// the largest split in percent, rounded up to an existing split. The driver gives more if a single
/// block needs more. The default gives shared memory as much as possible, as CUDA's occupancy calls
/// do.
struct carveout {
  std::uint32_t percent = 100;
};

/// The resources that the hardware allocates for one block.
struct block_allocation {
  std::uint32_t warps = 0;
  std::uint32_t registers = 0;
  std::uint32_t shared_bytes = 0; ///< with the system's share
};

/// For each resource, the number of blocks that one SM holds; `unlimited` if a launch does not use
/// the resource.
struct occupancy_by_resource {
  static constexpr std::uint32_t unlimited = std::numeric_limits<std::uint32_t>::max();

  std::uint32_t slots = 0; ///< block slots
  std::uint32_t warps = 0;
  std::uint32_t registers = 0;
  std::uint32_t shared = 0;

  [[nodiscard]] constexpr std::uint32_t blocks() const noexcept {
    return std::min(std::min(slots, warps), std::min(registers, shared));
  }
};

namespace detail {

[[nodiscard]] constexpr std::uint64_t round_up(std::uint64_t n, std::uint64_t unit) noexcept {
  return (n + unit - 1) / unit * unit;
}

[[nodiscard]] constexpr std::uint64_t warps_of(const launch_shape& s) noexcept {
  return (s.threads_per_block() + warp_threads - 1) / warp_threads;
}

[[nodiscard]] constexpr std::uint64_t registers_per_warp(const architecture_limits& l,
                                                         const launch_shape& s) noexcept {
  return round_up(std::uint64_t{s.registers_per_thread} * warp_threads, l.register_unit);
}

[[nodiscard]] constexpr std::uint64_t shared_of(const launch_shape& s) noexcept {
  return std::uint64_t{s.static_shared_bytes} + s.dynamic_shared_bytes;
}

/// The smallest split of at least `bytes`; the largest split if none is.
[[nodiscard]] constexpr std::uint32_t split_for(const architecture_limits& l,
                                                std::uint64_t bytes) noexcept {
  for (const std::uint32_t split : l.shared_splits)
    if (bytes <= split) return split;
  return l.shared_bytes;
}

enum class launch_fault {
  none,
  block,
  grid,
  registers_per_thread,
  registers_per_block,
  static_shared,
  shared,
  cluster,
};

/// The first property of a launch that no SM of this kind accepts.
[[nodiscard]] constexpr launch_fault fault_of(const architecture_limits& l,
                                              const launch_shape& s) noexcept {
  constexpr std::uint32_t max_x = 0x7fffffff;
  constexpr std::uint32_t max_y = 65535;
  const std::uint64_t threads = s.threads_per_block();
  if (s.block.x > 1024 || s.block.y > 1024 || s.block.z > 64) return launch_fault::block;
  if (threads == 0 || threads > l.max_threads_per_block) return launch_fault::block;
  if (s.grid.x > max_x || s.grid.y > max_y || s.grid.z > max_y) return launch_fault::grid;
  if (s.blocks() == 0) return launch_fault::grid;
  if (s.registers_per_thread > l.max_registers_per_thread)
    return launch_fault::registers_per_thread;
  // rounded as the hardware checks it
  const std::uint64_t warps = round_up(warps_of(s), l.warp_unit);
  if (registers_per_warp(l, s) * warps > l.max_registers_per_block)
    return launch_fault::registers_per_block;
  if (s.static_shared_bytes > l.max_static_shared_per_block) return launch_fault::static_shared;
  if (shared_of(s) > l.max_shared_per_block) return launch_fault::shared;
  const std::uint32_t largest = std::max(l.max_opt_in_cluster_blocks, 1u);
  if (s.cluster_blocks == 0 || s.cluster_blocks > largest || s.blocks() % s.cluster_blocks != 0)
    return launch_fault::cluster;
  return launch_fault::none;
}

} // namespace detail

/// The resources of one block of this launch, which must fit.
[[nodiscard]] constexpr block_allocation allocation_of(const architecture_limits& l,
                                                       const launch_shape& s) noexcept {
  const std::uint64_t shared =
      detail::round_up(detail::shared_of(s) + l.reserved_shared_bytes, l.shared_unit);
  block_allocation a;
  a.warps = static_cast<std::uint32_t>(detail::warps_of(s));
  a.registers = static_cast<std::uint32_t>(detail::registers_per_warp(l, s) * a.warps);
  a.shared_bytes = static_cast<std::uint32_t>(shared);
  return a;
}

/// The number of blocks of this launch that one SM holds, for each resource; all zero if the launch
/// is refused on an empty SM.
///
/// Source   CUDA C++ Programming Guide, "Hardware multithreading"; the arithmetic of the toolkit's
///          occupancy calculator. Registers are allocated to warps, from the partition of the SM on
///          which the warp runs; each partition holds a whole number of warps.
/// Differs  dynamic shared memory above 48 KiB counts as opted in, as for any launch that has run.
///          Local memory and barriers do not limit occupancy. Blocks of a cluster are counted
///          individually, as the driver does; on a small partition whole clusters can need more
///          SMs.
/// Cost     O(1), about ten divisions.
[[nodiscard]] constexpr occupancy_by_resource
occupancy_of(const architecture_limits& l, const launch_shape& s, carveout split = {}) noexcept {
  if (detail::fault_of(l, s) != detail::launch_fault::none) return {};
  const block_allocation a = allocation_of(l, s);
  occupancy_by_resource o;
  o.slots = l.max_blocks;
  o.warps = l.max_warps / a.warps;

  o.registers = occupancy_by_resource::unlimited;
  if (a.registers > 0) {
    const std::uint32_t warps_a_part = l.registers / l.warp_unit / (a.registers / a.warps);
    o.registers = warps_a_part * l.warp_unit / a.warps;
  }
  o.shared = occupancy_by_resource::unlimited;
  if (a.shared_bytes > 0) {
    const std::uint64_t wanted =
        std::uint64_t{std::min(split.percent, 100u)} * l.shared_bytes / 100;
    const std::uint32_t set = detail::split_for(l, wanted);
    const std::uint32_t room = set >= a.shared_bytes ? set : detail::split_for(l, a.shared_bytes);
    o.shared = room / a.shared_bytes;
  }
  return o;
}

/// The number of blocks of this launch that one SM holds at once, as the driver counts; zero if
/// none.
[[nodiscard]] constexpr std::uint32_t max_blocks_per_sm(const architecture_limits& l,
                                                        const launch_shape& s,
                                                        carveout split = {}) noexcept {
  return occupancy_of(l, s, split).blocks();
}

/// Whether at least one block of this launch fits on an SM.
[[nodiscard]] constexpr bool fits(const architecture_limits& l, const launch_shape& s) noexcept {
  return max_blocks_per_sm(l, s) > 0;
}

/// Why a launch fits on no SM, in one line: the request and the limit. Empty if it fits.
[[nodiscard]] inline std::string why_not_fit(const architecture_limits& l, const launch_shape& s) {
  if (fits(l, s)) return {};
  using detail::launch_fault;
  const auto text = [](std::uint64_t n) { return std::to_string(n); };
  const auto dims = [&](const extent& e) { return text(e.x) + "x" + text(e.y) + "x" + text(e.z); };
  switch (detail::fault_of(l, s)) {
  case launch_fault::block:
    return "block of " + dims(s.block) + " threads, expected 1 to " +
           text(l.max_threads_per_block) + " in all, at most 1024x1024x64";
  case launch_fault::grid:
    return "grid of " + dims(s.grid) + " blocks, expected 1x1x1 to 2147483647x65535x65535";
  case launch_fault::registers_per_thread:
    return text(s.registers_per_thread) + " registers a thread, expected at most " +
           text(l.max_registers_per_thread);
  case launch_fault::static_shared:
    return text(s.static_shared_bytes) + " bytes of static shared memory, expected at most " +
           text(l.max_static_shared_per_block);
  case launch_fault::shared:
    return text(detail::shared_of(s)) + " bytes of shared memory a block, expected at most " +
           text(l.max_shared_per_block);
  case launch_fault::cluster:
    return "clusters of " + text(s.cluster_blocks) + " blocks in a grid of " + text(s.blocks()) +
           ", expected a divisor of the grid, at most " +
           text(std::max(l.max_opt_in_cluster_blocks, 1u));
  case launch_fault::registers_per_block:
  case launch_fault::none: break; // the other resources suffice for one block if these do
  }
  return text(s.registers_per_thread) + " registers for each of " + text(s.threads_per_block()) +
         " threads, expected at most " + text(l.max_registers_per_block) + " in all";
}

} // namespace gsched

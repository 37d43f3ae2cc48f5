// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/launch.hpp>
#include <gsched/job/operation.hpp>
#include <gsched/job/profile.hpp>
#include <gsched/occupancy/calculator.hpp>
#include <gsched/occupancy/limits.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace gsched {

/// For each resource, the blocks of a launch that one SM holds beside `n` resident blocks of
/// another launch; all zero if either is refused on an empty SM, or if the resident blocks do not
/// fit by themselves.
///
/// Source   Elvinger et al., SoCC 2025, section 4.2, doi:10.1145/3772052.3772270: a kernel waits if
///          the resident blocks leave too little of one resource.
/// Differs  the split of an SM's memory is the one that holds most blocks. If the resident kernel
///          prefers a smaller one, the other kernel waits for an empty SM even where this says that
///          it fits.
/// Cost     O(1), about twenty divisions.
[[nodiscard]] constexpr occupancy_by_resource occupancy_beside(const architecture_limits& l,
                                                               const launch_shape& resident,
                                                               std::uint32_t n,
                                                               const launch_shape& s) noexcept {
  const occupancy_by_resource alone = occupancy_of(l, s);
  if (n == 0 || alone.blocks() == 0) return alone;
  if (max_blocks_per_sm(l, resident) < n) return {};
  const block_allocation a = allocation_of(l, s);
  const block_allocation other = allocation_of(l, resident);
  occupancy_by_resource o;
  o.slots = l.max_blocks - n;
  o.warps = (l.max_warps - n * other.warps) / a.warps;
  o.registers = occupancy_by_resource::unlimited;
  if (a.registers > 0) { // the resident warps are spread evenly over the partitions of the SM
    const std::uint32_t each = a.registers / a.warps;
    const std::uint32_t theirs = other.registers / other.warps;
    std::uint32_t warps = 0;
    for (std::uint32_t part = 0; part < l.warp_unit; ++part) {
      const std::uint32_t all = n * other.warps;
      const std::uint32_t here = all / l.warp_unit + (part < all % l.warp_unit ? 1 : 0);
      warps +=
          (l.registers / l.warp_unit - std::min(here * theirs, l.registers / l.warp_unit)) / each;
    }
    o.registers = warps / a.warps;
  }
  o.shared = occupancy_by_resource::unlimited;
  if (a.shared_bytes > 0)
    o.shared = (l.shared_bytes - std::min(n * other.shared_bytes, l.shared_bytes)) / a.shared_bytes;
  return o;
}

/// The blocks of a launch that one SM holds beside `n` resident blocks of another launch.
[[nodiscard]] constexpr std::uint32_t max_blocks_beside(const architecture_limits& l,
                                                        const launch_shape& resident,
                                                        std::uint32_t n,
                                                        const launch_shape& s) noexcept {
  return occupancy_beside(l, resident, n, s).blocks();
}

/// The first resource of which an SM has none left for a block: "registers", "shared memory",
/// "warps" or "blocks". Empty if a block fits.
[[nodiscard]] constexpr std::string_view lacking(const occupancy_by_resource& o) noexcept {
  if (o.blocks() > 0) return {};
  return o.registers == 0 ? "registers"
         : o.shared == 0  ? "shared memory"
         : o.warps == 0   ? "warps"
                          : "blocks";
}

/// A kernel of which no block fits beside the resident blocks, and the first resource that it
/// lacks.
struct held_kernel {
  std::size_t operation = 0;
  std::string_view lacks{}; ///< as lacking()
  bool operator==(const held_kernel&) const noexcept = default;
};

/// The kernels of a profile that wait until blocks of another launch end, if each SM holds `n` of
/// these.
///
/// Cost     O(operations).
[[nodiscard]] inline std::vector<held_kernel> kernels_held_up(const architecture_limits& l,
                                                              const launch_shape& resident,
                                                              std::uint32_t n, const profile& p) {
  std::vector<held_kernel> held;
  for (std::size_t i = 0; i < p.operations.size(); ++i) {
    const operation& op = p.operations[i].work;
    if (op.kind != operation_kind::kernel) continue;
    const std::string_view lacks = lacking(occupancy_beside(l, resident, n, op.launch));
    if (!lacks.empty()) held.push_back({i, lacks});
  }
  return held;
}

} // namespace gsched

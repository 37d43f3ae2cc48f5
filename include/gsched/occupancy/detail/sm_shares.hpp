// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/occupancy/demand.hpp>
#include <gsched/occupancy/limits.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace gsched {

/// The resources of an SM that limit its number of blocks (Paella, table 1).
enum class sm_resource : std::uint8_t { blocks, threads, registers, shared };
inline constexpr std::size_t sm_resources = 4;

/// Shares of one SM, one for each resource.
///
/// Units    2^-20 of the SM, so that sums are exact.
struct sm_shares {
  static constexpr std::uint64_t one = std::uint64_t{1} << 20;

  std::array<std::uint64_t, sm_resources> of{};

  constexpr void add(const sm_shares& block, std::uint64_t blocks) noexcept {
    for (std::size_t r = 0; r < sm_resources; ++r) of[r] += block.of[r] * blocks;
  }
  constexpr void take(const sm_shares& block, std::uint64_t blocks) noexcept {
    for (std::size_t r = 0; r < sm_resources; ++r) of[r] -= block.of[r] * blocks;
  }
  bool operator==(const sm_shares&) const noexcept = default;
};

/// The share of an SM that one block takes, rounded up. The binding resource is raised to 1 /
/// max_blocks: three blocks that need 30% of the registers each leave 10% that a fourth block
/// cannot use, so an SM with three of them is full.
[[nodiscard]] constexpr sm_shares shares_of(const architecture_limits& l,
                                            const kernel_demand& d) noexcept {
  sm_shares s;
  if (d.blocks == 0 || d.max_blocks_per_sm == 0) return s;
  const auto part = [](std::uint64_t taken, std::uint64_t whole) {
    if (whole == 0) return std::uint64_t{0};
    return std::min((taken * sm_shares::one + whole - 1) / whole, sm_shares::one);
  };
  s.of = {part(1, l.max_blocks), part(d.threads, l.max_threads), part(d.registers, l.registers),
          part(d.shared_bytes, l.shared_bytes)};
  std::uint64_t& binding = *std::max_element(s.of.begin(), s.of.end());
  binding = std::max(binding, part(1, d.max_blocks_per_sm));
  return s;
}

} // namespace gsched

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/launch.hpp>
#include <gsched/occupancy/calculator.hpp>
#include <gsched/occupancy/limits.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace gsched::sim {

/// The free resources of an SM, or those that a block takes: block slots, warps, registers and
/// shared memory, 16 bits each, so that n blocks are taken or released by one multiplication and
/// one addition.
using sm_resources = std::uint64_t;

/// The resources of one block of a kernel.
struct block_need {
  sm_resources bits = 0;
  std::array<float, 4> inverse{}; ///< of each field
  std::uint32_t per_sm = 0;       ///< such blocks on an empty SM; 0: none fits
};

/// Converts launches to packed resources for one kind of SM.
///
/// Differs  if the driver's count is below what the sums allow, because registers belong to
///          partitions of an SM, the scarcest field is rounded up until both agree.
class resource_packer {
public:
  explicit resource_packer(const architecture_limits& l) noexcept
      : limits_(l), totals_{slot_units, l.max_warps, l.registers / l.register_unit,
                            l.shared_bytes / l.shared_unit} {}

  [[nodiscard]] sm_resources empty() const noexcept { return pack(totals_); }

  /// `known_per_sm` is the driver's count, or 0 to compute it.
  [[nodiscard]] block_need need_of(const launch_shape& s,
                                   std::uint32_t known_per_sm) const noexcept {
    block_need n;
    n.per_sm = known_per_sm != 0 ? std::min(known_per_sm, limits_.max_blocks)
                                 : max_blocks_per_sm(limits_, s);
    if (n.per_sm == 0) return n;
    const block_allocation a = allocation_of(limits_, s);
    fields f{slot_units / limits_.max_blocks, std::max(a.warps, 1u),
             up(a.registers, limits_.register_unit), up(a.shared_bytes, limits_.shared_unit)};
    for (std::size_t i = 0; i < f.size(); ++i) f[i] = std::min(f[i], totals_[i] / n.per_sm);
    agree(f, n.per_sm);
    n.bits = pack(f);
    for (std::size_t i = 0; i < f.size(); ++i)
      n.inverse[i] = f[i] == 0 ? 65536.0f : 1.0f / static_cast<float>(f[i]);
    return n;
  }

  /// Whether `left` holds a block: no field borrows from its 16th bit, which is never used.
  [[nodiscard]] static bool holds(sm_resources left, const block_need& n) noexcept {
    constexpr sm_resources top = 0x8000800080008000u;
    return (((left | top) - n.bits) & top) == top;
  }

  /// The number of such blocks that `left` holds. Adding a half prevents a whole quotient from
  /// being rounded down; fields have 15 bits and a float 24, so it is never rounded up either.
  /// Arrays let compilers process all fields at once.
  [[nodiscard]] static std::uint32_t fit(sm_resources left, const block_need& n) noexcept {
    static_assert(std::endian::native == std::endian::little, "the first field is the lowest");
    const auto fields = std::bit_cast<std::array<std::uint16_t, 4>>(left);
    std::array<float, 4> fits;
    for (std::size_t i = 0; i < fits.size(); ++i)
      fits[i] = (static_cast<float>(static_cast<std::int32_t>(fields[i])) + 0.5f) * n.inverse[i];
    const auto least = [](float a, float b) { return a < b ? a : b; }; // by value: no branch
    return static_cast<std::uint32_t>(
        static_cast<std::int32_t>(least(least(fits[0], fits[1]), least(fits[2], fits[3]))));
  }

private:
  using fields = std::array<std::uint32_t, 4>;
  static constexpr std::uint32_t slot_units = 30240; // many divisors: slots can be divided finely

  static std::uint32_t up(std::uint32_t n, std::uint32_t unit) noexcept {
    return (n + unit - 1) / unit;
  }
  static sm_resources pack(const fields& f) noexcept {
    return f[0] | sm_resources{f[1]} << 16 | sm_resources{f[2]} << 32 | sm_resources{f[3]} << 48;
  }
  std::uint32_t count(const fields& f) const noexcept {
    std::uint32_t least = 65536;
    for (std::size_t i = 0; i < f.size(); ++i)
      if (f[i] != 0) least = std::min(least, totals_[i] / f[i]);
    return least;
  }
  void agree(fields& f, std::uint32_t per_sm) const noexcept {
    if (count(f) <= per_sm) return;
    std::size_t scarcest = 0;
    for (std::size_t i = 1; i < f.size(); ++i)
      if (f[i] * totals_[scarcest] > f[scarcest] * totals_[i]) scarcest = i;
    f[scarcest] = totals_[scarcest] / per_sm;
    if (count(f) > per_sm) f[0] = slot_units / per_sm;
  }

  architecture_limits limits_;
  fields totals_;
};

} // namespace gsched::sim

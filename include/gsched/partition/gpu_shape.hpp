// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace gsched {

/// Which partitions a kind of GPU can be cut into. The driver deals in groups of SMs; what the
/// division leaves over belongs to the last group. An H200's 132 SMs are 15 groups of 8 and one of
/// 12, so a partition has 8k SMs, or one of them 8k + 4.
///
/// Threads  a value.
struct gpu_shape {
  sm_count sms{132};
  sm_count group{8};

  bool operator==(const gpu_shape&) const noexcept = default;

  /// At least 1: a GPU smaller than a group is one.
  [[nodiscard]] constexpr std::uint32_t groups() const noexcept {
    return std::max(1u, group.count() == 0 ? 1u : sms.count() / group.count());
  }
  /// SMs that the last group has beyond the others'.
  [[nodiscard]] constexpr sm_count rest() const noexcept {
    if (group.count() == 0 || sms < group) return sm_count{0};
    return sm_count{sms.count() % group.count()};
  }
  /// What n groups have, 1 to groups(); all of them are the whole GPU, fewer are without the last.
  [[nodiscard]] constexpr sm_count of_groups(std::uint32_t n) const noexcept {
    return n >= groups() ? sms : sm_count{n * group.count()};
  }
  /// The fewest groups that have so many SMs; more than groups() where the GPU has not.
  [[nodiscard]] constexpr std::uint32_t groups_for(sm_count wanted) const noexcept {
    if (wanted > sms) return groups() + 1;
    if (group.count() == 0 || sms < group) return 1;
    const std::uint32_t n = (wanted.count() + group.count() - 1) / group.count();
    return std::clamp(n, 1u, groups());
  }

  [[nodiscard]] constexpr bool can_make(sm_count size) const noexcept {
    return can_make(std::span(&size, 1));
  }
  /// Side by side, at one time. The last group, with what is left over, is there once.
  [[nodiscard]] constexpr bool can_make(std::span<const sm_count> sizes) const noexcept {
    std::uint64_t plain = 0; // groups
    std::uint32_t with_rest = 0;
    for (const sm_count s : sizes) {
      if (s.count() == 0 || s > sms) return false;
      if (sms < group || group.count() == 0) return sizes.size() == 1 && s == sms;
      const std::uint32_t over = s.count() % group.count();
      const bool last = rest().count() > 0 && over == rest().count() && s > group;
      if (over != 0 && !last) return false;
      plain += s.count() / group.count() - (last ? 1u : 0u);
      with_rest += last ? 1u : 0u;
    }
    return with_rest <= 1 && plain + (rest().count() > 0 ? 1u : with_rest) <= groups();
  }
};

/// Those of 1, 2, ... groups, rising; the last is the whole GPU.
[[nodiscard]] inline std::vector<sm_count> sizes_of(const gpu_shape& g) {
  std::vector<sm_count> sizes;
  for (std::uint32_t n = 1; n <= g.groups(); ++n) sizes.push_back(g.of_groups(n));
  return sizes;
}

} // namespace gsched

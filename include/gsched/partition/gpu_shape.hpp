// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace gsched {

/// The partition sizes that a GPU supports. The driver allocates SMs in groups; the remainder of
/// the division belongs to the last group. An H200's 132 SMs are 15 groups of 8 and one of 12. So a
/// partition has 8k SMs, and one partition of each GPU can have 8k + 4.
///
/// Kernels in clusters of more than two blocks do not run on an H200's group of 12 SMs by itself,
/// and most models have some. Where `last_alone` is false, a last group with a remainder is only
/// part of partitions with other groups.
///
/// Cost     O(1), but can_make and sizes_of O(sizes).
/// Threads  a value.
struct gpu_shape {
  sm_count sms{132};
  sm_count group{8};
  bool last_alone = true; ///< a last group with a remainder can be a partition by itself

  bool operator==(const gpu_shape&) const noexcept = default;

  /// The number of groups, at least 1: a GPU smaller than a group is one group.
  [[nodiscard]] constexpr std::uint32_t groups() const noexcept {
    return std::max(1u, group.count() == 0 ? 1u : sms.count() / group.count());
  }
  /// SMs that the last group has more than the others.
  [[nodiscard]] constexpr sm_count remainder() const noexcept {
    if (group.count() == 0 || sms < group) return sm_count{0};
    return sm_count{sms.count() % group.count()};
  }
  /// The SMs of the last group.
  [[nodiscard]] constexpr sm_count last_group() const noexcept { return group + remainder(); }
  /// The SMs of n groups, 1 to groups(). Fewer than all groups exclude the last one.
  [[nodiscard]] constexpr sm_count of_groups(std::uint32_t n) const noexcept {
    return n >= groups() ? sms : sm_count{n * group.count()};
  }
  /// The SMs of n groups, 1 to groups(), that fill a GPU: with the remainder, if one partition can
  /// have the last group.
  [[nodiscard]] constexpr sm_count filling(std::uint32_t n) const noexcept {
    return n >= groups() || (n == 1 && !last_alone) ? of_groups(n) : of_groups(n) + remainder();
  }
  /// The fewest groups with that many SMs; groups() + 1 if the GPU has fewer SMs.
  [[nodiscard]] constexpr std::uint32_t groups_for(sm_count wanted) const noexcept {
    if (wanted > sms) return groups() + 1;
    if (group.count() == 0 || sms < group) return 1;
    const std::uint32_t n = (wanted.count() + group.count() - 1) / group.count();
    return std::clamp(n, 1u, groups());
  }

  /// The shape without its last group and the remainder; a shape of one group stays as it is. This
  /// shape has all partitions of that one.
  [[nodiscard]] constexpr gpu_shape without_last_group() const noexcept {
    return groups() == 1 ? *this : gpu_shape{of_groups(groups() - 1), group, last_alone};
  }

  /// Whether one partition can have that many SMs.
  [[nodiscard]] constexpr bool can_make(sm_count size) const noexcept {
    return can_make(std::span(&size, 1));
  }
  /// Whether the GPU can be split into partitions of these sizes at the same time. Only one of them
  /// can have the last group with its remainder.
  [[nodiscard]] constexpr bool can_make(std::span<const sm_count> sizes) const noexcept {
    std::uint64_t regular = 0; // groups
    std::uint32_t with_rest = 0;
    for (const sm_count s : sizes) {
      if (s.count() == 0 || s > sms) return false;
      if (sms < group || group.count() == 0) return sizes.size() == 1 && s == sms;
      const std::uint32_t over = s.count() % group.count();
      const bool last = remainder().count() > 0 && over == remainder().count() && s > group;
      if (over != 0 && !last) return false;
      if (last && !last_alone && groups() > 1 && s < group + last_group()) return false;
      regular += s.count() / group.count() - (last ? 1u : 0u);
      with_rest += last ? 1u : 0u;
    }
    return with_rest <= 1 && regular + (remainder().count() > 0 ? 1u : with_rest) <= groups();
  }
};

/// The SMs of 1, 2, ..., groups() groups, rising. The last entry is the whole GPU.
[[nodiscard]] inline std::vector<sm_count> sizes_of(const gpu_shape& g) {
  std::vector<sm_count> sizes;
  for (std::uint32_t n = 1; n <= g.groups(); ++n) sizes.push_back(g.of_groups(n));
  return sizes;
}

/// Drops the last group of each GPU that has more than one. Returns false if no GPU has.
[[nodiscard]] inline bool try_drop_last_groups(std::span<gpu_shape> shapes) noexcept {
  bool dropped = false;
  for (gpu_shape& s : shapes) {
    dropped = dropped || s.groups() > 1;
    s = s.without_last_group();
  }
  return dropped;
}

} // namespace gsched

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/quantity.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace gsched {

/// The SM groups of a partition on a GPU, and the models that can run there.
struct partition_placement {
  sm_count sms{};
  std::vector<std::uint32_t> groups{}; ///< rising
  std::vector<std::size_t> models{};   ///< rising
};

/// The groups assigned to a partition of a plan.
struct group_assignment {
  std::optional<std::size_t> kept{}; ///< index of the existing partition that it reuses
  std::vector<std::uint32_t> groups{};
};

/// Assigns groups of a GPU to the partitions of a plan with as little change as possible. A
/// partition reuses an existing one of the same size that has its models. Else it gets the groups
/// of an existing one of the same size, so that it waits for batches of that one only. Else it gets
/// the lowest free groups.
///
/// `sizes` are the SMs of the GPU's groups: equal, except for a last group with the remainder,
/// which may be a group of its own or part of the last one. `there` are existing partitions, those
/// in use first; they may overlap. `wanted` are the plan's partitions; their groups are ignored.
///
/// Order    the largest partitions first; of equal existing partitions the first.
/// Errors   too_small, one line: the partitions do not fit side by side, or a size is not a sum of
///          groups.
/// Cost     set-up: O(wanted x there x groups).
[[nodiscard]] inline std::vector<group_assignment>
assign_groups(std::span<const std::uint32_t> sizes, std::span<const partition_placement> wanted,
              std::span<const partition_placement> there) {
  std::vector<bool> taken(sizes.size(), false);
  std::vector<group_assignment> assigned(wanted.size());
  std::vector<std::size_t> order(wanted.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return wanted[a].sms > wanted[b].sms; });
  const auto try_take = [&](std::size_t w, const partition_placement& s) {
    if (s.sms != wanted[w].sms) return false;
    for (const std::uint32_t g : s.groups)
      if (taken[g]) return false;
    for (const std::uint32_t g : s.groups) taken[g] = true;
    assigned[w].groups = s.groups;
    return true;
  };
  const auto has_models = [&](const partition_placement& s, const partition_placement& w) {
    return std::includes(s.models.begin(), s.models.end(), w.models.begin(), w.models.end());
  };
  for (const std::size_t w : order)
    for (std::size_t i = 0; i < there.size() && !assigned[w].kept; ++i)
      if (has_models(there[i], wanted[w]) && try_take(w, there[i])) assigned[w].kept = i;
  for (const std::size_t w : order)
    for (std::size_t i = 0; i < there.size() && assigned[w].groups.empty(); ++i)
      static_cast<void>(try_take(w, there[i]));
  for (const std::size_t w : order) {
    if (!assigned[w].groups.empty()) continue;
    std::uint32_t left = wanted[w].sms.count();
    // A size that regular groups cannot make up includes the last group.
    const std::uint32_t each = sizes.empty() ? 1 : sizes.front();
    std::vector<std::uint32_t>& groups = assigned[w].groups;
    if (!sizes.empty() && left % each != 0 && sizes.back() % each == left % each &&
        sizes.back() <= left && !taken.back()) {
      groups.push_back(static_cast<std::uint32_t>(sizes.size() - 1));
      left -= sizes.back();
    }
    for (std::uint32_t g = 0; g < sizes.size() && left > 0; ++g)
      if (!taken[g] && sizes[g] == each && each <= left) {
        groups.push_back(g);
        left -= each;
      }
    if (left > 0 || groups.empty())
      throw error(errc::too_small, "partition of " + std::to_string(wanted[w].sms.count()) +
                                       " SMs, expected the plan to fit a GPU of " +
                                       std::to_string(sizes.size()) + " groups of " +
                                       std::to_string(each));
    std::sort(groups.begin(), groups.end());
    for (const std::uint32_t g : groups) taken[g] = true;
  }
  return assigned;
}

} // namespace gsched

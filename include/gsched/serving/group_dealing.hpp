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

/// A partition's place on a GPU: some groups of its SMs, and which models can run there.
struct seat {
  sm_count sms{};
  std::vector<std::uint32_t> groups{}; ///< rising
  std::vector<std::size_t> models{};   ///< rising
};

/// Where a partition of a plan is.
struct dealt_seat {
  std::optional<std::size_t> kept{}; ///< which of those that are there
  std::vector<std::uint32_t> groups{};
};

/// Which groups each partition of a plan has on a GPU, so that as little as can be changes: a seat
/// of the same size that has the models stays one; else the new seat has the groups of one of the
/// same size, so that it waits for nobody else's batch; else the lowest that are free.
///
/// `sizes` are those of the GPU's groups: equal, but for a last one that has what is left over, by
/// itself or beyond a group's. `there`
/// are seats that may lie over one another, the ones in use first. `wanted` need no groups.
///
/// Order    largest partitions first; of equal seats the first of `there`.
/// Errors   too_small, one line, where they do not fit side by side, or a size is none of groups.
/// Cost     set-up: O(wanted x there x groups).
[[nodiscard]] inline std::vector<dealt_seat> deal_groups(std::span<const std::uint32_t> sizes,
                                                         std::span<const seat> wanted,
                                                         std::span<const seat> there) {
  std::vector<bool> taken(sizes.size(), false);
  std::vector<dealt_seat> dealt(wanted.size());
  std::vector<std::size_t> order(wanted.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return wanted[a].sms > wanted[b].sms; });
  const auto try_take = [&](std::size_t w, const seat& s) {
    if (s.sms != wanted[w].sms) return false;
    for (const std::uint32_t g : s.groups)
      if (taken[g]) return false;
    for (const std::uint32_t g : s.groups) taken[g] = true;
    dealt[w].groups = s.groups;
    return true;
  };
  const auto has_models = [&](const seat& s, const seat& w) {
    return std::includes(s.models.begin(), s.models.end(), w.models.begin(), w.models.end());
  };
  for (const std::size_t w : order)
    for (std::size_t i = 0; i < there.size() && !dealt[w].kept; ++i)
      if (has_models(there[i], wanted[w]) && try_take(w, there[i])) dealt[w].kept = i;
  for (const std::size_t w : order)
    for (std::size_t i = 0; i < there.size() && dealt[w].groups.empty(); ++i)
      static_cast<void>(try_take(w, there[i]));
  for (const std::size_t w : order) {
    if (!dealt[w].groups.empty()) continue;
    std::uint32_t left = wanted[w].sms.count();
    // What whole groups do not make up is in the last group, which goes to nobody else.
    const std::uint32_t each = sizes.empty() ? 1 : sizes.front();
    std::vector<std::uint32_t>& groups = dealt[w].groups;
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
  return dealt;
}

} // namespace gsched

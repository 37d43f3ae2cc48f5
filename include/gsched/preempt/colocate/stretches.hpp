// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/preempt/colocate/plan.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace gsched {

/// Operations [from, to) of a co-runner that a whole real-time program carries, and their
/// positions.
struct padded_stretch {
  std::size_t real_time = 0; ///< index of the real-time program
  std::size_t corunner = 0;  ///< index of the co-runner
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::vector<pad_part> parts{}; ///< all blocks of each of these operations
};

/// The size of a co-runner, and the operations at which it may wait before any was carried.
struct padded_corunner {
  std::uint32_t operations = 0;
  std::vector<std::uint32_t> stations{0};
};

/// The stretches with which real-time programs are padded in advance: from each position at which a
/// co-runner can wait. These are its initial positions, and the ends of carried stretches. With
/// every real-time program they would soon include all operations, and each stretch costs a graph.
/// So beyond `most` positions of a co-runner a stretch ends at an existing position, or is left
/// out.
///
/// plan(real_time, corunner, from) returns what the whole real-time program can carry of the
/// co-runner from there, like pad_planner, without partial operations.
///
/// Order    deterministic: by co-runner, then by discovery of the position, then by real-time
///          program.
/// Cost     O(positions x real-time programs) calls of plan; set-up.
template <class Plan>
[[nodiscard]] std::vector<padded_stretch> plan_stretches(std::size_t real_time,
                                                         std::span<const padded_corunner> corunners,
                                                         std::size_t most, Plan plan) {
  std::vector<padded_stretch> all;
  for (std::size_t g = 0; g < corunners.size(); ++g) {
    const padded_corunner& of = corunners[g];
    std::set<std::uint32_t> places(of.stations.begin(), of.stations.end());
    std::deque<std::uint32_t> next(places.begin(), places.end());
    places.insert(of.operations);
    while (!next.empty()) {
      const std::uint32_t from = next.front();
      next.pop_front();
      for (std::size_t r = 0; r < real_time && from < of.operations; ++r) {
        padded_stretch s{r, g, from, from, plan(r, g, from)};
        if (s.parts.empty()) continue;
        s.to = s.parts.back().corunner_operation + 1;
        if (!places.contains(s.to)) {
          if (places.size() < most) {
            places.insert(s.to);
            next.push_back(s.to);
          } else {
            s.to = *std::prev(places.upper_bound(s.to)); // `from` itself is a position
          }
        }
        while (!s.parts.empty() && s.parts.back().corunner_operation >= s.to) s.parts.pop_back();
        if (s.to > s.from) all.push_back(std::move(s));
      }
    }
  }
  return all;
}

} // namespace gsched

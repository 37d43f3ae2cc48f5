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

/// Operations [from, to) of a guest that a real-time program carries as a whole, and where.
struct padded_stretch {
  std::size_t real_time = 0; ///< number of the program
  std::size_t guest = 0;     ///< the same
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::vector<pad_part> parts{}; ///< all blocks of each of these operations
};

/// A guest's size, and where it may stand before anything of it was carried.
struct padded_guest {
  std::uint32_t operations = 0;
  std::vector<std::uint32_t> stations{0};
};

/// Which stretches to pad real-time programs with ahead of time: from each place where a guest can
/// come to stand. Those are where it may stand at first, and where what was carried of it has
/// ended; with every real-time program they would soon be all, and each stretch costs a graph. So
/// beyond `most` places of a guest a stretch ends at an earlier one, or is left out.
///
/// plan(real_time, guest, from) gives what the whole real-time program can carry of the guest from
/// there, as pad_planner does, without operations of which blocks are missing.
///
/// Order    deterministic: by guest, then as places were found, then by real-time program.
/// Cost     O(places x real-time programs) calls of plan; set-up.
template <class Plan>
[[nodiscard]] std::vector<padded_stretch> plan_stretches(std::size_t real_time,
                                                         std::span<const padded_guest> guests,
                                                         std::size_t most, Plan plan) {
  std::vector<padded_stretch> all;
  for (std::size_t g = 0; g < guests.size(); ++g) {
    const padded_guest& of = guests[g];
    std::set<std::uint32_t> places(of.stations.begin(), of.stations.end());
    std::deque<std::uint32_t> next(places.begin(), places.end());
    places.insert(of.operations);
    while (!next.empty()) {
      const std::uint32_t from = next.front();
      next.pop_front();
      for (std::size_t r = 0; r < real_time && from < of.operations; ++r) {
        padded_stretch s{r, g, from, from, plan(r, g, from)};
        if (s.parts.empty()) continue;
        s.to = s.parts.back().guest_operation + 1;
        if (!places.contains(s.to)) {
          if (places.size() < most) {
            places.insert(s.to);
            next.push_back(s.to);
          } else {
            s.to = *std::prev(places.upper_bound(s.to)); // from itself is one
          }
        }
        while (!s.parts.empty() && s.parts.back().guest_operation >= s.to) s.parts.pop_back();
        if (s.to > s.from) all.push_back(std::move(s));
      }
    }
  }
  return all;
}

} // namespace gsched

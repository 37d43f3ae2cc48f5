// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>

namespace gsched {

/// Of the requests that wait in order: the first so many are given up, the next so many are a
/// batch.
struct batch_choice {
  std::size_t drop = 0;
  std::uint32_t take = 0; ///< 0: none is left
  bool operator==(const batch_choice&) const noexcept = default;
};

/// The largest batch that takes no longer; 0: none.
[[nodiscard]] inline std::uint32_t batch_within(std::span<const duration> times,
                                                duration most) noexcept {
  return static_cast<std::uint32_t>(std::upper_bound(times.begin(), times.end(), most) -
                                    times.begin());
}

/// Which requests make up a batch that starts now.
///  1  As many as desired, or all if fewer wait, if the first of them is in time with that; more,
///  if
///     more wait, while it is in time and the batch has ended by `free_by`.
///  2  Else as many as let the first be in time, if those that come after can then still begin with
///     one who is.
///  3  Else the first is given up, and the question is asked of the rest. So one request that has
///     waited too long does not make all batches after it small and late.
///
/// `times` are those of batches of 1, 2, ..., and do not fall; `deadline(i)` is that of the i-th
/// who waits, and they do not fall either.
///
/// Source   early drop: Nexus, Shen et al., SOSP 2019, doi:10.1145/3341301.3359658, section 6.3.
/// Differs  2, and that batches grow.
/// Cost     O(drops x log times).
template <class Deadline>
[[nodiscard]] batch_choice choose_batch(std::size_t waiting, std::uint32_t desired,
                                        std::span<const duration> times, time_point now,
                                        time_point free_by, Deadline deadline) {
  assert(desired >= 1 && desired <= times.size());
  for (std::size_t drop = 0; drop < waiting; ++drop) {
    const std::size_t left = waiting - drop;
    const auto planned = static_cast<std::uint32_t>(std::min<std::size_t>(left, desired));
    const duration slack = deadline(drop) - now;
    if (times[planned - 1] <= slack) {
      const std::uint32_t fit = batch_within(times, std::min(slack, free_by - now));
      return {drop,
              std::max(planned, static_cast<std::uint32_t>(std::min<std::size_t>(left, fit)))};
    }
    const std::uint32_t few = batch_within(times, slack); // fewer than planned
    if (few == 0) continue;
    const std::size_t next = std::min<std::size_t>(left - few, desired);
    if (now + times[few - 1] + times[next - 1] <= deadline(drop + few)) return {drop, few};
  }
  return {waiting, 0};
}

} // namespace gsched

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>

namespace gsched::detail {

/// A decision about waiting requests, in order: drop the first `drop`, then run the next `take` as
/// a batch.
struct batch_choice {
  std::size_t drop = 0;
  std::uint32_t take = 0; ///< 0: no request is left
  bool operator==(const batch_choice&) const noexcept = default;
};

/// The largest batch whose latency is at most `most`; 0: none.
[[nodiscard]] inline std::uint32_t batch_within(std::span<const duration> times,
                                                duration most) noexcept {
  return static_cast<std::uint32_t>(std::upper_bound(times.begin(), times.end(), most) -
                                    times.begin());
}

/// Chooses the requests of a batch that starts now:
///  1  If the first request meets its deadline in a batch of the desired size (or of all waiting
///     requests, if fewer), take that batch. Take more waiting requests while the first still meets
///     its deadline and the batch ends by `free_by`.
///  2  Else take the largest batch in which the first request meets its deadline, if the request
///     after that batch can still meet its own.
///  3  Else drop the first request and decide again. So one request that has waited too long does
///     not make all later batches small and late.
///
/// `times` are the latencies of batches of 1, 2, ..., and do not fall. `deadline(i)` is the
/// deadline of the i-th waiting request; deadlines do not fall either.
///
/// Source   early drop: Nexus, Shen et al., SOSP 2019, doi:10.1145/3341301.3359658, section 6.3.
/// Differs  rule 2, and batches that grow beyond the desired size.
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
    const std::uint32_t few = batch_within(times, slack);
    if (few == 0) continue;
    const std::size_t next = std::min<std::size_t>(left - few, desired);
    if (now + times[few - 1] + times[next - 1] <= deadline(drop + few)) return {drop, few};
  }
  return {waiting, 0};
}

} // namespace gsched::detail

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/preempt/colocate/candidate.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace gsched {

/// When a variant dominates another one.
enum class dominance : std::uint8_t {
  no_worse,        ///< not greater in any of the six criteria, and smaller in one
  better_in_every, ///< smaller in each of the six
};

namespace detail {

/// The six criteria, in the paper's order; smaller is better.
[[nodiscard]] constexpr std::array<std::int64_t, 6> criteria(const kernel_variant& k) noexcept {
  return {k.kernel_time.count(), k.block_time.count(), k.registers_per_thread,
          k.shared_bytes,        k.threads_per_block,  k.blocks};
}

[[nodiscard]] constexpr bool dominates(const std::array<std::int64_t, 6>& a,
                                       const std::array<std::int64_t, 6>& b,
                                       dominance how) noexcept {
  if (how == dominance::no_worse && a == b) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (how == dominance::no_worse ? a[i] > b[i] : a[i] >= b[i]) return false;
  return true;
}

} // namespace detail

/// Whether variant a makes b superfluous.
///
/// Source   REEF, doi:10.1145/3768622, section 5.3: kernel time, block time, registers, shared
///          memory, block size, number of blocks.
/// Differs  the paper's words are "shorter", "lower", "smaller" in all six: better_in_every. Block
///          sizes and shared memory have few values, and of two variants that tie in one of them
///          neither would be removed. no_worse accepts ties and loses nothing: a variant that it
///          removes meets rules 1 and 2 nowhere where the remaining one does not.
[[nodiscard]] constexpr bool dominates(const kernel_variant& a, const kernel_variant& b,
                                       dominance how = dominance::no_worse) noexcept {
  return detail::dominates(detail::criteria(a), detail::criteria(b), how);
}

/// The variants that no other one dominates, in the given order. With no_worse, the first of
/// variants with equal criteria remains.
///
/// Cost     O(n log n + n k) of n variants of which k remain.
[[nodiscard]] inline std::vector<kernel_variant> prune(std::span<const kernel_variant> variants,
                                                       dominance how = dominance::no_worse) {
  struct entry {
    std::array<std::int64_t, 6> key;
    std::size_t at;
  };
  std::vector<entry> order;
  order.reserve(variants.size());
  for (const kernel_variant& k : variants) order.push_back({detail::criteria(k), order.size()});
  // A variant that dominates another one precedes it. Dominance is transitive, so comparing with
  // the remaining variants suffices.
  std::sort(order.begin(), order.end(), [](const entry& a, const entry& b) {
    return a.key != b.key ? a.key < b.key : a.at < b.at;
  });
  std::vector<entry> kept;
  for (const entry& e : order) {
    const bool pointless = std::any_of(kept.begin(), kept.end(), [&](const entry& k) {
      return detail::dominates(k.key, e.key, how) || (how == dominance::no_worse && k.key == e.key);
    });
    if (!pointless) kept.push_back(e);
  }
  std::sort(kept.begin(), kept.end(), [](const entry& a, const entry& b) { return a.at < b.at; });
  std::vector<kernel_variant> out;
  out.reserve(kept.size());
  for (const entry& e : kept) out.push_back(variants[e.at]);
  return out;
}

} // namespace gsched

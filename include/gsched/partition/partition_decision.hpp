// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/demand.hpp>
#include <gsched/partition/interference.hpp>
#include <gsched/partition/partition_search.hpp>
#include <gsched/partition/pieces.hpp>
#include <gsched/partition/plan.hpp>
#include <gsched/partition/rate_bound.hpp>
#include <gsched/partition/settle.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

namespace gsched {

/// What is known of whether there is a plan.
struct partition_decision {
  verdict known = verdict::open;
  std::optional<partition_plan> plan{}; ///< if known to be
  double bound = 0;                     ///< no plan serves the demands times more than that
};

namespace detail {

inline constexpr double enough = 1 - 8e-7; ///< of a rate: is_served says so

/// Looks for a plan in so many steps; with interference, with batches planned to be as slow as they
/// were seen to be in what was found before.
template <interference_model Interference>
[[nodiscard]] partition_decision decide(const latency_table& t, std::span<const demand> demands,
                                        std::span<const gpu_shape> shapes,
                                        const Interference& beside, std::uint64_t steps) {
  constexpr bool alone = std::is_same_v<Interference, no_interference>;
  constexpr int most_rounds = alone ? 1 : 6;
  constexpr int most_refused = 64;
  std::vector<demand> some;
  std::vector<double> needs;
  for (const demand& d : demands)
    if (d.rate > 0) {
      some.push_back(d);
      needs.push_back(d.rate * enough);
    }
  partition_decision said;
  said.bound = std::numeric_limits<double>::infinity();
  if (some.empty()) {
    said.known = verdict::plan;
    said.plan.emplace();
    return said;
  }
  work_budget budget(steps);
  std::vector<double> factors(some.size(), 1.0);
  for (int round = 0; round < most_rounds; ++round) {
    const piece_menu menu(t, some, shapes, factors);
    const rate_bound bound = bound_of(menu);
    if (round == 0) {
      said.bound = bound.scale;
      if (bound.scale < enough) said.known = verdict::impossible;
    }
    if (bound.scale < enough) return said;
    std::vector<double> met = factors;
    int refused = 0;
    partition_search search(t, menu, bound, needs, budget);
    const verdict v = search.run([&](std::span<const dealt_piece> pieces) {
      if (refused == most_refused) return false;
      said.plan = piece_settling(t, menu, beside, met).plan(pieces);
      refused += said.plan ? 0 : 1;
      return said.plan.has_value();
    });
    if (v == verdict::plan || (v == verdict::impossible && round == 0)) {
      said.known = v;
      return said;
    }
    if (met == factors) return said;
    factors = std::move(met);
  }
  return said;
}

} // namespace detail

} // namespace gsched

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/demand.hpp>
#include <gsched/partition/detail/partition_search.hpp>
#include <gsched/partition/detail/pieces.hpp>
#include <gsched/partition/detail/rate_bound.hpp>
#include <gsched/partition/detail/settle.hpp>
#include <gsched/partition/interference.hpp>
#include <gsched/partition/plan.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace gsched {

/// What is known of whether there is a plan.
struct partition_decision {
  verdict known = verdict::open;
  std::optional<partition_plan> plan{}; ///< if known to be
  double bound = 0;                     ///< no plan serves the demands times more than that
};

/// How far to look for one.
struct search_effort {
  std::uint64_t steps = 0;   ///< of a search
  std::uint32_t rounds = 1;  ///< with interference: searches with batches as slow as was seen
  std::uint32_t refused = 1; ///< in each: what was found and then did not hold beside others
};

namespace detail {

inline constexpr double enough = 1 - 8e-7; ///< of a rate: is_served says so
inline constexpr double gain = 1.4;        ///< a partition is slowed by others' part of its GPU
inline constexpr double near = 0.95;       ///< what may be served by others side by side
inline constexpr std::uint32_t few_refused = 3;
inline constexpr std::uint64_t most_later = 200'000; ///< steps of searches that prove nothing
inline constexpr double over = 1.003;                ///< that much more than was short

/// Looks for a plan in so many steps; with interference first with batches that are as little
/// slower as can be, so that there is none where it sees none then, and after that with each
/// demand's batches planned to be as much slower as what was found before was short of it.
template <interference_model Interference>
[[nodiscard]] partition_decision decide(const latency_table& t, std::span<const demand> demands,
                                        std::span<const gpu_shape> shapes,
                                        const Interference& beside, const search_effort& effort) {
  constexpr bool alone = std::is_same_v<Interference, no_interference>;
  const std::uint32_t most_rounds = alone ? 1 : effort.rounds;
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
  std::vector<double> factors(some.size(), 1.0), found(some.size(), 1.0);
  for (std::uint32_t round = 0; round < most_rounds; ++round) {
    const piece_menu menu = !alone && round == 0 ? piece_menu::least_slowed(t, some, shapes, beside)
                                                 : piece_menu(t, some, shapes, factors);
    const rate_bound bound = bound_of(menu);
    if (round == 0) {
      said.bound = bound.scale;
      if (bound.scale < enough) {
        said.known = verdict::impossible;
        return said;
      }
    }
    std::vector<double> next;
    std::uint32_t refused = 0;
    double nearest = 0; ///< of the least served in what was refused
    verdict v = verdict::open;
    if (bound.scale >= enough) {
      work_budget budget(round == 0 ? effort.steps
                                    : std::min(most_later, effort.steps / most_rounds));
      partition_search search(t, menu, bound, needs, budget);
      v = search.run([&](std::span<const dealt_piece> pieces) {
        piece_settling settling(t, menu, beside);
        said.plan = settling.plan(pieces);
        if (said.plan) return true;
        for (std::size_t d = 0; refused == 0 && d < factors.size(); ++d) {
          const double wanted = over / std::clamp(settling.served()[d], 0.5, 2.0);
          next.push_back(std::max(1.0, factors[d] + gain * (wanted - 1)));
        }
        const std::span<const double> served = settling.served();
        nearest = std::max(nearest, *std::min_element(served.begin(), served.end()));
        ++refused;
        if (refused == effort.refused || (refused == few_refused && nearest < near))
          budget.give_up();
        return false;
      });
    }
    if (v == verdict::plan || (v == verdict::impossible && round == 0)) {
      said.known = v;
      return said;
    }
    if (next.empty()) { // slower than there is room for
      if (round == 0) return said;
      for (std::size_t d = 0; d < factors.size(); ++d) factors[d] = (factors[d] + found[d]) / 2;
    } else {
      found = std::exchange(factors, std::move(next));
    }
  }
  return said;
}

} // namespace detail

} // namespace gsched

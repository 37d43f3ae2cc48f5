// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/detail/search/branch_and_bound.hpp>
#include <gsched/partition/detail/search/candidates.hpp>
#include <gsched/partition/detail/search/plan_finaliser.hpp>
#include <gsched/partition/detail/search/rate_bound.hpp>
#include <gsched/partition/feasibility.hpp>
#include <gsched/partition/interference.hpp>
#include <gsched/partition/model_demand.hpp>
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

namespace gsched::detail {

/// The part of a rate that is_served accepts as the whole rate.
inline constexpr double sufficient_part = 1 - 8e-7;
/// A slow-down planned for a whole GPU, over the slow-down wanted on a partition of it.
inline constexpr double slowdown_gain = 1.4;
/// A round goes on past few_rejected solutions if one of them serves this part of each demand.
inline constexpr double nearly_served = 0.95;
inline constexpr std::uint32_t few_rejected = 3;
inline constexpr std::uint64_t most_later_steps = 200'000; ///< steps of a round that proves nothing
inline constexpr double shortfall_margin = 1.003;          ///< margin on a shortfall

/// The demands that have a rate, and what of it a plan has to serve.
struct wanted_rates {
  std::vector<model_demand> demands{};
  std::vector<double> needs{}; ///< requests a second, by demand
};
[[nodiscard]] inline wanted_rates wanted_of(std::span<const model_demand> demands) {
  wanted_rates wanted;
  for (const model_demand& d : demands)
    if (d.rate > 0) {
      wanted.demands.push_back(d);
      wanted.needs.push_back(d.rate * sufficient_part);
    }
  return wanted;
}

/// Searches for a plan by branch and bound. With interference the first round plans with the least
/// slow-down of each candidate, so its `infeasible` is a proof. Each later round slows each
/// demand's batches by the shortfall of the first rejected solution. A GPU has at most `places`
/// partitions; 0: any number.
///
/// Cost     up to the budget.
template <interference_model Interference>
[[nodiscard]] planning_result
plan_by_branch_and_bound(const latency_table& t, std::span<const model_demand> demands,
                         std::span<const gpu_shape> shapes, const Interference& beside,
                         const search_budget& limits, std::uint32_t places = 0) {
  constexpr bool alone = std::is_same_v<Interference, no_interference>;
  const std::uint32_t most_rounds = alone ? 1 : limits.rounds;
  const wanted_rates rates = wanted_of(demands);
  const std::vector<model_demand>& some = rates.demands;
  const std::vector<double>& needs = rates.needs;
  planning_result result;
  result.bound = std::numeric_limits<double>::infinity();
  if (some.empty()) {
    result.status = feasibility::feasible;
    result.plan.emplace();
    return result;
  }
  std::vector<double> factors(some.size(), 1.0), found(some.size(), 1.0);
  for (std::uint32_t round = 0; round < most_rounds; ++round) {
    const candidate_table choices =
        !alone && round == 0 ? candidate_table::least_slowed(t, some, shapes, beside, places)
                             : candidate_table(t, some, shapes, factors, places);
    const rate_bound bound = bound_of(choices);
    if (round == 0) {
      result.bound = bound.scale;
      if (bound.scale < sufficient_part) {
        result.status = feasibility::infeasible;
        return result;
      }
    }
    std::vector<double> next; // factors
    std::uint32_t rejected = 0;
    double nearest = 0; // over rejected solutions: the largest part that the worst demand gets
    feasibility v = feasibility::unknown;
    if (bound.scale >= sufficient_part) {
      work_budget budget(round == 0 ? limits.steps
                                    : std::min(most_later_steps, limits.steps / most_rounds));
      branch_and_bound search(t, choices, bound, needs, budget);
      v = search.run([&](std::span<const assignment> assignments) {
        plan_finaliser finaliser(t, choices, beside);
        result.plan = finaliser.plan(assignments);
        if (result.plan) return true;
        for (std::size_t d = 0; rejected == 0 && d < factors.size(); ++d) {
          const double wanted = shortfall_margin / std::clamp(finaliser.served()[d], 0.5, 2.0);
          next.push_back(std::max(1.0, factors[d] + slowdown_gain * (wanted - 1)));
        }
        const std::span<const double> served = finaliser.served();
        nearest = std::max(nearest, *std::min_element(served.begin(), served.end()));
        ++rejected;
        if (rejected == limits.rejected || (rejected == few_rejected && nearest < nearly_served))
          budget.give_up();
        return false;
      });
    }
    if (round == 0) result.is_cut_short = v == feasibility::unknown && rejected == 0;
    if (v == feasibility::feasible || (v == feasibility::infeasible && round == 0)) {
      result.status = v;
      return result;
    }
    if (next.empty()) { // no solution: the factors were too high
      if (round == 0) return result;
      for (std::size_t d = 0; d < factors.size(); ++d) factors[d] = (factors[d] + found[d]) / 2;
    } else {
      found = std::exchange(factors, std::move(next));
    }
  }
  return result;
}

} // namespace gsched::detail

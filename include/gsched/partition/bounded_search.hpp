// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/detail/search/branch_and_bound_plan.hpp>
#include <gsched/partition/detail/search/branch_and_price_plan.hpp>
#include <gsched/partition/elastic.hpp>
#include <gsched/partition/feasibility.hpp>
#include <gsched/partition/gpu_shape.hpp>
#include <gsched/partition/planner.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace gsched {

/// Plans on the fewest SMs that a bounded search finds. Its command-line name is "best". Without
/// interference it does these steps:
///  1  A linear program bounds what any plan serves (bound_of). It proves many questions infeasible
///     at once.
///  2  A knapsack for each model gives the fewest groups that partitions of its own need. The
///     partitions of all models are then packed into the GPUs.
///  3  Branch and bound also tries partitions that models share in time, within its budget.
///  4  The elastic planner's plan is returned if it needs fewer SMs, or if it is the only plan. So
///     this planner has a plan wherever the elastic planner has one.
///  5  Where the budget ends without a plan or a proof, the search runs again without the last
///     group of each GPU, as in the elastic planner. So a last group never costs a plan.
/// With interference the elastic planner runs first. If it has no plan, branch and price searches
/// among GPU splits whose interference is known. Then steps 1 to 3 run repeatedly: each round slows
/// the planned batches by what the former round's plan lacked. "Infeasible" then follows only from
/// the least slow-down that any neighbour causes.
///
/// Source   gsched's own; it is exact_planner with a small budget.
/// Order    demands and GPUs by index.
/// Cost     bounded by the budget and one run of the elastic planner. Five models on four GPUs take
///          0.2 ms, rarely 4; with interference 15 ms on average, without a plan 30 to 60, rarely
///          270. 100 models on 64 GPUs take under 300 ms.
/// Threads  immutable.
class bounded_search_planner {
public:
  static constexpr std::string_view name = "best";

  explicit bounded_search_planner(search_budget budget = {250'000, 16, 100}) noexcept
      : budget_(budget) {}

  template <interference_model Interference = no_interference>
  [[nodiscard]] std::optional<partition_plan>
  plan(const latency_table& t, std::span<const model_demand> demands,
       std::span<const gpu_shape> shapes, const Interference& beside = {}) const {
    constexpr bool alone = std::is_same_v<Interference, no_interference>;
    std::optional<partition_plan> greedy;
    if constexpr (!alone) greedy = elastic_planner{}.plan(t, demands, shapes, beside);
    planning_result found = search(t, demands, shapes, beside, greedy.has_value());
    if (found.status == feasibility::infeasible) return std::nullopt;
    if constexpr (alone) greedy = elastic_planner{}.plan(t, demands, shapes, beside);
    if (greedy)
      return found.plan && sms_of(*found.plan) <= sms_of(*greedy) ? std::move(found.plan) : greedy;
    std::vector<gpu_shape> fewer(shapes.begin(), shapes.end());
    while (found.status == feasibility::unknown && try_drop_last_groups(fewer))
      found = search(t, demands, fewer, beside, false);
    return std::move(found.plan);
  }

private:
  /// `is_feasible`: a plan is known.
  template <class Interference>
  [[nodiscard]] planning_result
  search(const latency_table& t, std::span<const model_demand> demands,
         std::span<const gpu_shape> shapes, const Interference& beside, bool is_feasible) const {
    if constexpr (!std::is_same_v<Interference, no_interference>)
      if (!is_feasible) {
        const search_budget one_step{1, 1, 1};
        planning_result first =
            detail::plan_by_branch_and_bound(t, demands, shapes, beside, one_step);
        if (first.status == feasibility::infeasible) return first;
        auto priced = detail::plan_by_branch_and_price(t, demands, shapes, beside, price_budgets);
        if (priced.plan) return {feasibility::feasible, std::move(priced.plan)};
      }
    return detail::plan_by_branch_and_bound(t, demands, shapes, beside, budget_);
  }

  static constexpr std::array<detail::branch_and_price_budget, 2> price_budgets{
      {{{3, 0.04, 1.005}}, {{3, 0.04, 1.01}}}};

  search_budget budget_;
};

static_assert(partition_planner<bounded_search_planner>);

} // namespace gsched

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/detail/search/branch_and_bound_plan.hpp>
#include <gsched/partition/detail/search/branch_and_price.hpp>
#include <gsched/partition/detail/search/candidates.hpp>
#include <gsched/partition/detail/search/plan_finaliser.hpp>
#include <gsched/partition/gpu_shape.hpp>
#include <gsched/partition/interference.hpp>
#include <gsched/partition/latency_table.hpp>
#include <gsched/partition/model_demand.hpp>
#include <gsched/partition/plan.hpp>

#include <optional>
#include <span>
#include <vector>

namespace gsched::detail {

/// The result of branch and price.
struct branch_and_price_result {
  std::optional<partition_plan> plan{};
  bool is_insufficient = false; ///< even mixtures of the known columns do not serve all demands
};

/// Searches for a plan by branch and price, with one budget after the other until one finds a plan
/// or the known columns are insufficient.
///
/// Cost     up to the budgets.
template <interference_model Interference>
[[nodiscard]] branch_and_price_result
plan_by_branch_and_price(const latency_table& t, std::span<const model_demand> demands,
                         std::span<const gpu_shape> shapes, const Interference& beside,
                         std::span<const branch_and_price_budget> budgets) {
  const wanted_rates rates = wanted_of(demands);
  const std::vector<model_demand>& some = rates.demands;
  const std::vector<double>& needs = rates.needs;
  const candidate_table choices(t, some, shapes);
  branch_and_price_result result;
  for (const branch_and_price_budget& budget : budgets) {
    branch_and_price search(t, choices, needs, beside, budget);
    result.is_insufficient = search.scale() < 1;
    if (result.is_insufficient) break;
    plan_finaliser finaliser(t, choices, beside);
    if (search.run([&](std::span<const assignment> assignments) {
          result.plan = finaliser.plan(assignments);
          return result.plan.has_value();
        }))
      break;
  }
  return result;
}

} // namespace gsched::detail

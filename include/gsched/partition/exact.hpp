// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/bounded_search.hpp>
#include <gsched/partition/detail/search/branch_and_bound_plan.hpp>
#include <gsched/partition/detail/search/branch_and_price_plan.hpp>
#include <gsched/partition/detail/search/slowed_bound.hpp>
#include <gsched/partition/every_cut.hpp>
#include <gsched/partition/feasibility.hpp>
#include <gsched/partition/gpu_shape.hpp>
#include <gsched/partition/interference.hpp>
#include <gsched/partition/planner.hpp>
#include <gsched/partition/squishy_bin_packing.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace gsched {

/// Finds a plan or proves that none exists. Its command-line name is "ideal".
///
/// The search covers every plan that faults_of passes: all splits of a GPU into groups, any number
/// of models that share a partition in time in batches of any sizes, and any split of a model's
/// rate over partitions. Rates are continuous, but a partition's possible rates are bounded by
/// finitely many rate vectors (shared_candidates). So a plan is a choice of partitions whose rate
/// vectors add up to the demands. `infeasible` is proven by the bound of bound_of or by a complete
/// branch and bound. `unknown` means that the budget ended first; `bound` then limits how far the
/// rates are from infeasible. Both hold up to a millionth of the rates.
///
/// With interference a plan is still exact. `infeasible` is proven with the least slow-down that a
/// neighbour causes (clause I4 of interference_model), or, for a summed_interference, by a linear
/// program over all cuts of a GPU with the slow-downs that each causes (is_proven_infeasible).
/// Demands that mixtures of such cuts serve stay `unknown` if neither branch and price nor
/// bounded_search_planner finds a plan, with and without the last groups of the GPUs.
/// For GPUs of more than four shapes only the bound proves infeasibility.
///
/// Source   gsched's own. The ideal scheduler of the gpu-lets paper is every_cut_planner, which
///          tries splits of a GPU in two, each filled greedily.
/// Order    demands and GPUs by index.
/// Cost     milliseconds for five models on four GPUs of 16 groups; a second at most where GPUs are
///          cut in halves and most models share; with interference up to two where there is no
///          plan; for many models up to the budget.
/// Threads  immutable.
class exact_planner {
public:
  static constexpr std::string_view name = "ideal";

  explicit exact_planner(search_budget budget = {100'000'000, 48, 200}) noexcept
      : budget_(budget) {}

  /// Searches for a plan.
  ///
  /// Errors   none; the caller owes what partition_planner asks.
  template <interference_model Interference = no_interference>
  [[nodiscard]] planning_result solve(const latency_table& t, std::span<const model_demand> demands,
                                      std::span<const gpu_shape> shapes,
                                      const Interference& beside = {}) const {
    planning_result result = search(t, demands, shapes, beside, true);
    std::vector<gpu_shape> fewer(shapes.begin(), shapes.end());
    for (planning_result on_fewer = result;
         on_fewer.status == feasibility::unknown && try_drop_last_groups(fewer);) {
      on_fewer = search(t, demands, fewer, beside, false);
      result.take(std::move(on_fewer.plan));
    }
    return result;
  }

  template <interference_model Interference = no_interference>
  [[nodiscard]] std::optional<partition_plan>
  plan(const latency_table& t, std::span<const model_demand> demands,
       std::span<const gpu_shape> shapes, const Interference& beside = {}) const {
    return solve(t, demands, shapes, beside).plan;
  }

private:
  template <class Interference>
  [[nodiscard]] planning_result
  search(const latency_table& t, std::span<const model_demand> demands,
         std::span<const gpu_shape> shapes, const Interference& beside, bool proves) const {
    constexpr bool alone = std::is_same_v<Interference, no_interference>;
    const search_budget one_round{budget_.steps, 1, budget_.rejected};
    planning_result result =
        detail::plan_by_branch_and_bound(t, demands, shapes, beside, alone ? budget_ : one_round);
    const auto try_planner = [&](const auto& planner) {
      if (result.status == feasibility::unknown)
        result.take(planner.plan(t, demands, shapes, beside));
    };
    try_planner(bounded_search_planner{});
    if constexpr (summed_interference<Interference>)
      if (proves && result.status == feasibility::unknown &&
          detail::is_proven_infeasible(t, demands, shapes, beside)) {
        result.status = feasibility::infeasible;
        return result;
      }
    if (!alone && result.status == feasibility::unknown) {
      const auto nodes =
          static_cast<std::uint32_t>(std::min<std::uint64_t>(budget_.steps / 1000, most_nodes));
      const std::array<detail::branch_and_price_budget, 3> price_budgets{
          {{{3, 0.04, 1.005}, nodes, budget_.rejected},
           {{3, 0.04, 1.01}, nodes, budget_.rejected},
           {{4, 0.04, 1.005}, nodes, budget_.rejected}}};
      detail::branch_and_price_result priced =
          detail::plan_by_branch_and_price(t, demands, shapes, beside, price_budgets);
      result.take(std::move(priced.plan));
      if (result.status == feasibility::unknown && !priced.is_insufficient)
        result.take(detail::plan_by_branch_and_bound(t, demands, shapes, beside, budget_).plan);
    }
    try_planner(squishy_bin_packing_planner{});
    return result;
  }

  static constexpr std::uint64_t most_nodes = 3000;

  search_budget budget_;
};

/// Finds a plan on whole GPUs that models share in time only, wherever one exists within its
/// budget: the bound of what squishy_bin_packing_planner can do. Its command-line name is
/// "sbp_ideal".
///
/// Source   gsched's own; it is exact_planner for GPUs of one group.
/// Order    demands and GPUs by index.
/// Cost     milliseconds for five models on four GPUs, rarely up to two seconds.
/// Threads  immutable.
class exact_whole_gpu_planner {
public:
  static constexpr std::string_view name = "sbp_ideal";

  template <interference_model Interference = no_interference>
  [[nodiscard]] std::optional<partition_plan>
  plan(const latency_table& t, std::span<const model_demand> demands,
       std::span<const gpu_shape> shapes, const Interference& = {}) const {
    std::vector<gpu_shape> whole;
    for (const gpu_shape& s : shapes) whole.push_back({s.sms, s.sms});
    return exact_planner{{most_steps, 1, 1}}.plan(t, demands, whole);
  }

private:
  static constexpr std::uint64_t most_steps = 20'000'000;
};

/// Finds a plan with at most two partitions of a GPU, or proves that none exists: the bound of what
/// gpulet_planner can do. Its command-line name is "gpulet_ideal".
///
/// The search is that of exact_planner, and so is what its answers prove, except that a GPU has two
/// places for partitions. The bound of bound_of counts them too. With interference branch and price
/// chooses among all cuts in two.
///
/// Source   gsched's own. The ideal scheduler of the gpu-lets paper fills each cut greedily; it is
///          every_cut_planner, whose plans this planner has too.
/// Order    demands and GPUs by index.
/// Cost     milliseconds for five models on four GPUs; up to two seconds where models have to share
///          partitions, where the budget may end first; with interference up to three.
/// Threads  immutable.
class exact_two_partition_planner {
public:
  static constexpr std::string_view name = "gpulet_ideal";

  explicit exact_two_partition_planner(search_budget budget = {20'000'000, 48, 200}) noexcept
      : budget_(budget) {}

  /// Searches for a plan.
  ///
  /// Errors   none; the caller owes what partition_planner asks.
  template <interference_model Interference = no_interference>
  [[nodiscard]] planning_result solve(const latency_table& t, std::span<const model_demand> demands,
                                      std::span<const gpu_shape> shapes,
                                      const Interference& beside = {}) const {
    constexpr bool alone = std::is_same_v<Interference, no_interference>;
    const search_budget one_round{budget_.steps, 1, budget_.rejected};
    planning_result result = detail::plan_by_branch_and_bound(t, demands, shapes, beside,
                                                              alone ? budget_ : one_round, places);
    if (result.status == feasibility::unknown)
      result.take(every_cut_planner{}.plan(t, demands, shapes, beside));
    if (result.status == feasibility::unknown)
      result.take(squishy_bin_packing_planner{}.plan(t, demands, shapes, beside));
    if (alone || result.status != feasibility::unknown) return result;
    if constexpr (summed_interference<Interference>)
      if (detail::is_proven_infeasible(t, demands, shapes, beside, places)) {
        result.status = feasibility::infeasible;
        return result;
      }
    constexpr std::array<detail::branch_and_price_budget, 2> price_budgets{
        {{{places, 0.1, 1.005}, 2000}, {{places, 0.1, 1.01}, 2000}}};
    result.take(detail::plan_by_branch_and_price(t, demands, shapes, beside, price_budgets).plan);
    if (result.status == feasibility::unknown)
      result.take(
          detail::plan_by_branch_and_bound(t, demands, shapes, beside, budget_, places).plan);
    return result;
  }

  template <interference_model Interference = no_interference>
  [[nodiscard]] std::optional<partition_plan>
  plan(const latency_table& t, std::span<const model_demand> demands,
       std::span<const gpu_shape> shapes, const Interference& beside = {}) const {
    return solve(t, demands, shapes, beside).plan;
  }

private:
  static constexpr std::uint32_t places = 2;

  search_budget budget_;
};

static_assert(partition_planner<exact_planner> && partition_planner<exact_whole_gpu_planner> &&
              partition_planner<exact_two_partition_planner>);

} // namespace gsched

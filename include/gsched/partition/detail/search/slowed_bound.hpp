// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/detail/search/branch_and_bound_plan.hpp>
#include <gsched/partition/detail/search/candidates.hpp>
#include <gsched/partition/detail/search/master_problem.hpp>
#include <gsched/partition/detail/search/slowed_columns.hpp>
#include <gsched/partition/feasibility.hpp>
#include <gsched/partition/gpu_shape.hpp>
#include <gsched/partition/interference.hpp>
#include <gsched/partition/latency_table.hpp>
#include <gsched/partition/model_demand.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace gsched::detail {

/// Whether a linear program proves that no plan serves the demands in spite of the slow-downs of
/// partitions on one GPU. A GPU has at most `places` partitions; 0: any number.
///
/// Proof    As for bound_of, with prices y of whole demands that add up to 1. Of the portions that
///          take turns on a partition, let it have only the one that is worth most for its time:
///          the partition is worth no less, and its neighbours, who feel the most of its portions,
///          are not slowed more (clause S2). So a GPU is worth at most what the best column is
///          worth that has one batch on each partition. If the GPUs are worth less than 1
///          together, some demand is not served.
/// Cost     five models on four GPUs 0.2 s in the mean, up to 1.5 s.
template <summed_interference Interference>
[[nodiscard]] bool is_proven_infeasible(const latency_table& t,
                                        std::span<const model_demand> demands,
                                        std::span<const gpu_shape> shapes,
                                        const Interference& beside, std::uint32_t places = 0) {
  constexpr double enough = 1 - 1e-9;
  constexpr int most_rounds = 60;
  constexpr std::size_t most_steps = 600;
  const wanted_rates rates = wanted_of(demands);
  const std::vector<model_demand>& some = rates.demands;
  const std::vector<double>& needs = rates.needs;
  const candidate_table choices(t, some, shapes, {}, places);
  std::vector<std::uint32_t> gpus;
  std::vector<slowed_columns<Interference>> searches;
  std::vector<std::vector<priced_column>> columns; // by kind
  std::vector<bool> is_served(some.size(), false);
  for (const gpu_kind& k : choices.kinds()) {
    searches.emplace_back(t, choices, static_cast<std::uint32_t>(gpus.size()), needs, beside);
    gpus.push_back(static_cast<std::uint32_t>(k.gpus.size()));
    columns.push_back(searches.back().alone());
    for (const priced_column& c : columns.back())
      for (std::size_t d = 0; d < some.size(); ++d)
        if (c.parts[d] > 0) is_served[d] = true;
  }
  if (some.empty()) return false;
  if (std::find(is_served.begin(), is_served.end(), false) != is_served.end()) return true;
  const auto best_column = [&](std::size_t k, std::span<const double> prices) {
    priced_column best{0, std::vector<double>(some.size(), 0.0)};
    for (const priced_column& c : columns[k])
      if (const double worth =
              std::inner_product(prices.begin(), prices.end(), c.parts.begin(), 0.0);
          worth > best.worth)
        best = {worth, c.parts};
    return best;
  };
  for (int round = 0; round < most_rounds; ++round) {
    master_problem master(some.size(), gpus, best_column);
    const master_bound known = master.solve(most_steps);
    double all = 0; // worth of all GPUs with these columns
    for (std::size_t k = 0; k < gpus.size(); ++k) all += gpus[k] * known.worths[k];
    if (!(all > 0) || all >= enough) return false;
    bool more = false;
    for (std::size_t k = 0; k < gpus.size(); ++k)
      switch (
          searches[k].find_worth_more(known.prices, known.worths[k] * enough / all, columns[k])) {
      case feasibility::feasible: more = true; break;
      case feasibility::unknown: return false;
      case feasibility::infeasible: break;
      }
    if (!more) return true;
  }
  return false;
}

} // namespace gsched::detail

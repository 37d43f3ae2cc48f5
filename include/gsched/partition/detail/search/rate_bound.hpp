// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/detail/search/best_cut.hpp>
#include <gsched/partition/detail/search/candidates.hpp>
#include <gsched/partition/detail/search/master_problem.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace gsched::detail {

/// An upper bound of what GPUs serve.
struct rate_bound {
  double scale = 0;             ///< no plan serves the demands times more than this
  std::vector<double> prices{}; ///< by demand: worth of one request a second; they prove the bound
};

/// The split of a GPU with the highest worth, each partition given to one demand. If the table
/// limits the places of a GPU, it has at most so many partitions.
struct best_column {
  double worth = 0;
  std::vector<std::pair<std::size_t, std::size_t>> parts{}; ///< candidate, demand
};

/// Finds the best column of a kind of GPU for prices of one request a second.
///
/// Cost     O(candidates x (demands + groups)).
[[nodiscard]] inline best_column best_column_of(const candidate_table& choices, std::uint32_t kind,
                                                const std::vector<double>& prices) {
  std::vector<double> worth(choices.candidates().size(), 0.0);
  std::vector<std::size_t> demand(worth.size(), 0);
  for (std::size_t i = 0; i < worth.size(); ++i)
    for (std::size_t d = 0; choices.candidates()[i].kind == kind && d < prices.size(); ++d)
      if (const double v = prices[d] * choices.rate(i, d); v > worth[i]) {
        worth[i] = v;
        demand[i] = d;
      }
  best_cut cut(choices, kind);
  cut.solve(worth);
  best_column best{cut.worth(), {}};
  for (const std::size_t i : cut.candidates()) best.parts.emplace_back(i, demand[i]);
  return best;
}

/// Bounds how many times the demands' rates the GPUs can serve. No plan that faults_of passes
/// exceeds the bound, with any interference, except for the verifier's tolerance of a millionth.
///
/// Proof    Give each demand d a price y_d for one request a second. On a partition with cycle D
///          and batches b_d of latencies l_d, D >= sum of l_d, and l_d + D is within d's SLO. So 2
///          l_d is within the SLO too: alone on the partition, d would reach the rate b_d / l_d. It
///          reaches b_d / D, which is l_d / D of that. These fractions add up to at most 1, so the
///          partition is worth at most the maximum over d of y_d x its rate alone. So a GPU is
///          worth at most W(y), the worth of its best column, and sum of y_d x served rate <= sum
///          of W(y). Interference only lengthens batches. Any prices prove a bound; the linear
///          program finds the best prices.
/// Cost     O(steps x (demands^2 + candidates x demands)). The demands' rates are above 0.
[[nodiscard]] inline rate_bound bound_of(const candidate_table& choices,
                                         std::size_t most_steps = 2000) {
  const std::size_t demands = choices.demands().size();
  for (std::size_t d = 0; d < demands; ++d) { // a demand without any candidate proves 0
    double most = 0;
    for (std::size_t i = 0; i < choices.candidates().size(); ++i)
      most = std::max(most, choices.rate(i, d));
    if (most > 0) continue;
    rate_bound none{0, std::vector<double>(demands, 0.0)};
    none.prices[d] = 1 / choices.demands()[d].rate;
    return none;
  }
  if (demands == 0) return {std::numeric_limits<double>::infinity(), {}};
  std::vector<std::uint32_t> gpus;
  for (const gpu_kind& k : choices.kinds())
    gpus.push_back(static_cast<std::uint32_t>(k.gpus.size()));
  const auto per_request = [&](std::span<const double> prices) {
    std::vector<double> all(demands);
    for (std::size_t d = 0; d < demands; ++d) all[d] = prices[d] / choices.demands()[d].rate;
    return all;
  };
  const auto price = [&](std::size_t k, std::span<const double> prices) {
    const best_column column =
        best_column_of(choices, static_cast<std::uint32_t>(k), per_request(prices));
    priced_column c{column.worth, std::vector<double>(demands, 0.0)};
    for (const auto& [which, d] : column.parts)
      c.parts[d] += choices.rate(which, d) / choices.demands()[d].rate;
    return c;
  };
  master_problem master(demands, std::move(gpus), price);
  const master_bound best = master.solve(most_steps);
  return {best.scale, per_request(best.prices)};
}

} // namespace gsched::detail

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/interference/coefficients.hpp>
#include <gsched/interference/corun_factors.hpp>
#include <gsched/interference/corunner.hpp>
#include <gsched/interference/kernel_chain.hpp>
#include <gsched/interference/mean_slowdown.hpp>
#include <gsched/interference/pair_slowdowns.hpp>
#include <gsched/interference/solo_metrics.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace gsched {

/// A graph on SMs of its own: its kernels, and what they take in the mean.
struct chain_and_mean {
  kernel_chain chain{}; ///< its factors count as 1
  mean_use use{};       ///< likewise
};

/// The pressure that each of these graphs needs in predictions from means (mean_slowdown), for
/// these to say of all of them beside each other what their kernels say (all_pair_slowdowns): one
/// number a graph, times its own pressure. What a mean does not tell is mostly a graph's effect on
/// others: how its traffic comes in bursts, and how long its warps wait for it.
///
/// Source   chosen on the pairs of measured sets: docs/research/interference_accuracy.md, "From
///          means, corrected by kernels". A sensitivity in addition made groups worse.
/// Order    in the order of `graphs`; from corun_factors::least to most; 1 for a graph that slows
///          none. Of few graphs the numbers are drawn to 1.
/// Errors   those of all_pair_slowdowns.
/// Cost     a prediction of each pair, also of each graph beside itself: some 5 ms each, on all
///          cores. For set-up.
/// Threads  a pure function; returns when the threads it starts have ended. `progress` is called
///          after each pair, on any of them.
[[nodiscard]] inline std::vector<double>
mean_pressures(std::span<const chain_and_mean> graphs, const interference_coefficients& law,
               const std::function<void()>& progress = {}) {
  constexpr replay_window brief{8000, 2, 300'000};
  // A pressure of 1 counts as one more graph, slowed by 4.5%.
  constexpr double at_first = 0.045 * 0.045;
  constexpr double exact = 1e-4;
  constexpr int most_rounds = 100;

  const std::size_t n = graphs.size();
  std::vector<kernel_chain> chains;
  std::vector<mean_use> uses;
  for (const chain_and_mean& g : graphs) {
    chains.push_back(g.chain);
    chains.back().factors = {};
    uses.push_back(g.use);
    uses.back().factors = {};
  }
  const std::vector<std::vector<double>> by_kernels =
      all_pair_slowdowns(chains, law, brief, sms_of_pair::own, progress);

  std::vector<double> pressures(n, 1.0);
  for (std::size_t j = 0; j < n; ++j) {
    double& pressure = pressures[j];
    for (int round = 0; round < most_rounds; ++round) {
      mean_use felt = uses[j];
      felt.factors.pressure = pressure;
      felt = felt.as_neighbour();
      // Of relative slow-downs beyond 1.
      double wanted = at_first * pressure, predicted = at_first * pressure * pressure;
      for (std::size_t i = 0; i < n; ++i) {
        const double slowed = by_kernels[i][j];
        const double x = (mean_slowdown(law, uses[i], felt) - 1) / slowed;
        wanted += x * (slowed - 1) / slowed;
        predicted += x * x;
      }
      const double next =
          std::clamp(pressure * wanted / predicted, corun_factors::least, corun_factors::most);
      const bool is_found = std::abs(next - pressure) < exact * pressure;
      pressure = next;
      if (is_found) break;
    }
  }
  return pressures;
}

} // namespace gsched

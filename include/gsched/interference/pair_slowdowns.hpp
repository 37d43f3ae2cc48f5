// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/run_in_parallel.hpp>
#include <gsched/interference/coefficients.hpp>
#include <gsched/interference/corun_slowdowns.hpp>
#include <gsched/interference/kernel_chain.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <thread>
#include <vector>

namespace gsched {

/// How much two graphs that share all SMs slow each other: of a beside b, and of b beside a. What
/// corun_rule::predicted asks for.
///
/// Source   as corun_slowdowns.
/// Units    ratios of the latency of a replay, at least 1.
/// Errors   none; a chain of kernels without counters is slowed by a lack of space on the SMs
///          alone, and slows others by that, so look at has_counters(profile) before.
/// Cost     that of corun_slowdowns: 60 to 210 ms. For set-up.
/// Threads  a pure function.
[[nodiscard]] inline std::array<double, 2> pair_slowdowns(const kernel_chain& a,
                                                          const kernel_chain& b,
                                                          const interference_coefficients& c,
                                                          const replay_window& window = {}) {
  const std::array<corunner, 2> both{corunner{&a, 0}, corunner{&b, 0}};
  const std::vector<double> slow = corun_slowdowns(both, c.contention, c.replay, window);
  return {slow[0], slow[1]};
}

/// The same of all of these graphs: [i][j] is the slow-down of the i-th beside the j-th. A graph
/// beside itself has the larger one of both.
///
/// Errors   as corun_slowdowns, of the first pair; std::system_error if no thread can be started.
/// Cost     that of each pair, on as many threads as the machine has cores.
/// Threads  a pure function; returns when the threads it starts have ended.
[[nodiscard]] inline std::vector<std::vector<double>>
all_pair_slowdowns(std::span<const kernel_chain> graphs, const interference_coefficients& c) {
  std::vector<std::array<std::size_t, 2>> pairs;
  for (std::size_t i = 0; i < graphs.size(); ++i)
    for (std::size_t j = i; j < graphs.size(); ++j) pairs.push_back({i, j});
  const std::size_t cores = std::max(1u, std::thread::hardware_concurrency());
  const auto slow = run_in_parallel<std::array<double, 2>>(
      pairs.size(), std::min(cores, pairs.size()),
      [&](std::size_t k) { return pair_slowdowns(graphs[pairs[k][0]], graphs[pairs[k][1]], c); });
  std::vector<std::vector<double>> all(graphs.size(), std::vector<double>(graphs.size()));
  for (std::size_t k = 0; k < pairs.size(); ++k) {
    const auto [i, j] = pairs[k];
    all[i][j] = slow[k][0];
    all[j][i] = i == j ? std::max(slow[k][0], slow[k][1]) : slow[k][1];
  }
  return all;
}

} // namespace gsched

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/run_in_parallel.hpp>
#include <gsched/interference/coefficients.hpp>
#include <gsched/interference/corun_slowdowns.hpp>
#include <gsched/interference/kernel_chain.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <thread>
#include <vector>

namespace gsched {

/// Which SMs two graphs beside each other have: the same, or each those of its chain alone.
enum class sms_of_pair : std::uint8_t { shared, own };

/// How much two graphs slow each other: of a beside b, and of b beside a. On shared SMs it is what
/// corun_rule::predicted asks for.
///
/// Source   as corun_slowdowns.
/// Units    ratios of the latency of a replay, at least 1.
/// Errors   none; a chain of kernels without counters is slowed by a lack of space on the SMs
///          alone, and slows others by that, so look at has_counters(profile) before.
/// Cost     that of corun_slowdowns: 60 to 210 ms. For set-up.
/// Threads  a pure function.
[[nodiscard]] inline std::array<double, 2>
pair_slowdowns(const kernel_chain& a, const kernel_chain& b, const interference_coefficients& c,
               const replay_window& window = {}, sms_of_pair sms = sms_of_pair::shared) {
  const std::array<corunner, 2> both{corunner{&a, 0},
                                     corunner{&b, sms == sms_of_pair::own ? 1u : 0u}};
  const std::vector<double> slow = corun_slowdowns(both, c.contention, c.replay, window);
  return {slow[0], slow[1]};
}

/// The same of all of these graphs: [i][j] is the slow-down of the i-th beside the j-th. A graph
/// beside itself has the larger one of both on shared SMs, where the older one goes first, and that
/// of the first on SMs of its own.
///
/// Errors   as corun_slowdowns, of the first pair; std::system_error if no thread can be started.
/// Cost     that of each pair, on as many threads as the machine has cores.
/// Threads  a pure function; returns when the threads it starts have ended. `progress` is called
///          after each pair, on any of them.
[[nodiscard]] inline std::vector<std::vector<double>>
all_pair_slowdowns(std::span<const kernel_chain> graphs, const interference_coefficients& c,
                   const replay_window& window = {}, sms_of_pair sms = sms_of_pair::shared,
                   const std::function<void()>& progress = {}) {
  std::vector<std::array<std::size_t, 2>> pairs;
  for (std::size_t i = 0; i < graphs.size(); ++i)
    for (std::size_t j = i; j < graphs.size(); ++j) pairs.push_back({i, j});
  const std::size_t cores = std::max(1u, std::thread::hardware_concurrency());
  const auto slow = run_in_parallel<std::array<double, 2>>(
      pairs.size(), std::min(cores, pairs.size()), [&](std::size_t k) {
        const auto [i, j] = pairs[k];
        const std::array<double, 2> both = pair_slowdowns(graphs[i], graphs[j], c, window, sms);
        if (progress) progress();
        return both;
      });
  std::vector<std::vector<double>> all(graphs.size(), std::vector<double>(graphs.size()));
  for (std::size_t k = 0; k < pairs.size(); ++k) {
    const auto [i, j] = pairs[k];
    all[j][i] = slow[k][1];
    all[i][j] = slow[k][0];
    if (i == j && sms == sms_of_pair::shared) all[i][i] = std::max(slow[k][0], slow[k][1]);
  }
  return all;
}

} // namespace gsched

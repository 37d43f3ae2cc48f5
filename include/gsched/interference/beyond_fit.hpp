// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/interference/coefficients.hpp>
#include <gsched/interference/corun_slowdowns.hpp>
#include <gsched/interference/demand.hpp>
#include <gsched/interference/kernel_chain.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace gsched {

/// Whether graphs that run together demand more of each resource than a fit has seen.
///
/// Differs  from a bound of each kernel: demands are means of a replay, as in seen_range. Resources
///          of SMs count where all graphs share one partition, and from half of the capacity,
///          because the law adds next to nothing below.
/// Cost     O(kernels).
[[nodiscard]] inline std::array<bool, resources> use_beyond_fit(const seen_range& seen,
                                                                std::span<const corunner> graphs) {
  constexpr double rounding = 1e-4;
  constexpr double harmless = 0.5;
  const bool shared = std::all_of(graphs.begin(), graphs.end(), [&](const corunner& g) {
    return g.partition == graphs.front().partition;
  });
  std::array<double, resources> sum{};
  for (const corunner& g : graphs) {
    const demand d = mean_demand(*g.chain);
    for (std::size_t r = shared ? 0 : resources_on_sm; r < resources; ++r) sum[r] += d.use[r];
  }
  std::array<bool, resources> beyond{};
  for (std::size_t r = 0; r < resources; ++r)
    beyond[r] = sum[r] > std::max(seen.sum[r] + rounding, r < resources_on_sm ? harmless : 0);
  return beyond;
}

/// What graphs that run together demand beyond all that a fit has seen, as "graphs, fp16, dram":
/// their predicted slow-downs are extrapolations. Empty if nothing.
/// Cost     as use_beyond_fit.
[[nodiscard]] inline std::string beyond_fit(const seen_range& seen,
                                            std::span<const corunner> graphs) {
  std::string names = graphs.size() > seen.graphs ? "graphs" : "";
  const std::array<bool, resources> beyond = use_beyond_fit(seen, graphs);
  for (std::size_t r = 0; r < resources; ++r)
    if (beyond[r]) names += (names.empty() ? "" : ", ") + std::string(resource_names[r]);
  return names;
}

/// The same of all pairs of these graphs on the same SMs, and of each beside itself: [i][j] is of
/// the i-th beside the j-th, as all_pair_slowdowns has it.
///
/// Cost     O(graphs^2 x kernels).
[[nodiscard]] inline std::vector<std::vector<std::string>>
all_pairs_beyond_fit(const seen_range& seen, std::span<const kernel_chain> graphs) {
  std::vector<std::vector<std::string>> all(graphs.size(), std::vector<std::string>(graphs.size()));
  for (std::size_t i = 0; i < graphs.size(); ++i)
    for (std::size_t j = i; j < graphs.size(); ++j) {
      const std::array<corunner, 2> both{corunner{&graphs[i], 0}, corunner{&graphs[j], 0}};
      all[i][j] = all[j][i] = beyond_fit(seen, both);
    }
  return all;
}

/// What all_pairs_beyond_fit found, in a line such as "vgg16_b32 beside bert_b8: more dram, and 3
/// pairs more". Empty if nothing. `names` are the graphs' in their order.
[[nodiscard]] inline std::string line_of_pairs(std::span<const std::vector<std::string>> beyond,
                                               std::span<const std::string> names) {
  std::size_t pairs = 0;
  std::string line;
  for (std::size_t i = 0; i < beyond.size(); ++i)
    for (std::size_t j = i; j < beyond.size(); ++j)
      if (!beyond[i][j].empty() && ++pairs == 1)
        line = names[i] + " beside " + names[j] + ": more " + beyond[i][j];
  return pairs < 2 ? line : line + ", and " + std::to_string(pairs - 1) + " pairs more";
}

} // namespace gsched

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/partition/detail/packing/duty_cycle.hpp>
#include <gsched/partition/interference.hpp>
#include <gsched/partition/latency_table.hpp>
#include <gsched/partition/model_demand.hpp>
#include <gsched/partition/plan.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace gsched::detail {

/// Finds duty cycles for all partitions of one GPU, which give their sizes, models and rates, and
/// sets their cycles and batches. Slow-downs depend on batches and batches on slow-downs, so it
/// iterates to a fixed point. `parts` are the demands of each partition's portions, in their order.
///
/// Returns the largest ratio of latency to SLO; empty if a partition has no cycle or if there is no
/// fixed point in a few rounds. `here` is then of no use.
///
/// Cost     O(rounds x partitions) duty cycles.
template <interference_model Interference>
[[nodiscard]] std::optional<double> settle_cycles(const latency_table& t, std::span<gpulet> here,
                                                  std::span<const std::vector<model_demand>> parts,
                                                  const Interference& beside) {
  constexpr int most_rounds = 8;
  for (int round = 0; round < most_rounds; ++round) {
    bool changed = false;
    double worst = 0;
    for (std::size_t i = 0; i < here.size(); ++i) {
      std::vector<double> factors;
      for (const model_demand& d : parts[i])
        factors.push_back(beside(std::span<const gpulet>(here), i, d.model));
      const std::optional<duty_cycle> cycle = find_duty_cycle(t, here[i].sms, parts[i], factors);
      if (!cycle) return std::nullopt;
      worst = std::max(worst, cycle->worst);
      changed |= here[i].cycle != cycle->length;
      here[i].cycle = cycle->length;
      for (std::size_t p = 0; p < here[i].portions.size(); ++p) {
        changed |= here[i].portions[p].batch != cycle->batches[p];
        here[i].portions[p].batch = cycle->batches[p];
      }
    }
    if (!changed) return worst;
  }
  return std::nullopt;
}

} // namespace gsched::detail

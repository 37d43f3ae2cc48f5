// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/demand.hpp>
#include <gsched/partition/detail/capacity.hpp>
#include <gsched/partition/detail/duty_cycle.hpp>
#include <gsched/partition/detail/packing.hpp>
#include <gsched/partition/planner.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace gsched {

/// Whole GPUs, shared in time alone: what a model needs beyond GPUs that it fills is packed
/// together with the others', the most occupied best where it fits tightest.
///
/// Source   Nexus: Shen et al., SOSP 2019, doi:10.1145/3341301.3359658, section 6.1, the baseline
///          of Choi et al., USENIX ATC 2022.
/// Differs  two models share a GPU wherever some duty cycle serves both, not only in the shorter of
///          their own. So one pair fits wherever Nexus puts it together; that all of a scenario
///          fits wherever Nexus' does is not shown, as both are greedy.
/// Order    by occupancy falling, then as the demands come; GPUs in their order.
/// Cost     O(demands x GPUs) duty cycles.
class squishy_bin_packing {
public:
  static constexpr std::string_view name = "sbp";

  template <interference_model Interference = no_interference>
  [[nodiscard]] std::optional<partition_plan>
  plan(const latency_table& t, std::span<const demand> demands, std::span<const gpu_shape> shapes,
       const Interference& beside = {}) const {
    packing<Interference> gpus(t, shapes, beside);
    std::vector<std::pair<double, demand>> rest;
    std::uint32_t next = 0; // GPU without anybody
    for (demand d : demands) {
      const double wanted = d.rate;
      while (d.rate > 0 && next < gpus.gpus()) {
        const double most = capacity_of(t, d.model, shapes[next].sms, d.slo).rate;
        if (!(most > 0) || d.rate < most) break;
        const demand full{d.model, most * fill, d.slo};
        if (!gpus.try_add(next, shapes[next].groups(), full)) return std::nullopt;
        d.rate -= full.rate;
        ++next;
      }
      if (is_served(wanted, wanted - d.rate)) continue;
      if (next == gpus.gpus()) return std::nullopt;
      const auto alone = find_duty_cycle(t, shapes[next].sms, std::span(&d, 1));
      if (!alone) return std::nullopt;
      const duration busy = t.latency(d.model, alone->batches[0], shapes[next].sms);
      rest.emplace_back(
          static_cast<double>(busy.count()) / static_cast<double>(alone->length.count()), d);
    }
    std::stable_sort(rest.begin(), rest.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    const std::uint32_t first = next;
    for (const auto& [occupancy, d] : rest) {
      std::vector<std::pair<double, std::uint32_t>> open;
      for (std::uint32_t g = first; g < next; ++g) open.emplace_back(-gpus.occupancy(g, 0), g);
      std::sort(open.begin(), open.end()); // the fullest first
      bool placed = false;
      for (const auto& [emptiness, g] : open)
        if (!placed) placed = gpus.try_join(g, 0, d);
      if (placed) continue;
      if (next == gpus.gpus() || !gpus.try_add(next, shapes[next].groups(), d)) return std::nullopt;
      ++next;
    }
    return gpus.plan();
  }

private:
  static constexpr double fill = 1 - 1e-9; ///< of a capacity, so that rounding makes nobody late
};

static_assert(partition_planner<squishy_bin_packing>);

} // namespace gsched

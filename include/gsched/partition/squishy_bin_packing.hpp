// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/detail/packing/capacity.hpp>
#include <gsched/partition/detail/packing/duty_cycle.hpp>
#include <gsched/partition/detail/packing/gpu_packing.hpp>
#include <gsched/partition/model_demand.hpp>
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

/// Plans on whole GPUs that models share in time only. A model first fills whole GPUs; the rest of
/// each rate is packed with other models, in order of falling occupancy, into the fullest GPU where
/// all SLOs hold.
///
/// Source   Nexus: Shen et al., SOSP 2019, doi:10.1145/3341301.3359658, section 6.1, the baseline
///          of Choi et al., USENIX ATC 2022.
/// Differs  two models share a GPU if any duty cycle serves both. Nexus tries only the shorter of
///          their own cycles. So a pair that fits in Nexus also fits here; whole sets of models are
///          not compared, as both algorithms are greedy.
/// Order    occupancy falling, then the order of `demands`; GPUs by index.
/// Cost     O(demands x GPUs) duty cycles.
/// Threads  immutable.
class squishy_bin_packing_planner {
public:
  static constexpr std::string_view name = "sbp";

  template <interference_model Interference = no_interference>
  [[nodiscard]] std::optional<partition_plan>
  plan(const latency_table& t, std::span<const model_demand> demands,
       std::span<const gpu_shape> shapes, const Interference& beside = {}) const {
    detail::gpu_packing<Interference> gpus(t, shapes, beside);
    std::vector<std::pair<double, model_demand>> rest;
    std::uint32_t next = 0; // the first empty GPU
    for (model_demand d : demands) {
      const double wanted = d.rate;
      while (d.rate > 0 && next < gpus.gpus()) {
        const double most = detail::capacity_of(t, d.model, shapes[next].sms, d.slo).rate;
        if (!(most > 0) || d.rate < most) break;
        const model_demand full{d.model, most * fill, d.slo};
        if (!gpus.try_add(next, shapes[next].groups(), full)) return std::nullopt;
        d.rate -= full.rate;
        ++next;
      }
      if (is_served(wanted, wanted - d.rate)) continue;
      if (next == gpus.gpus()) return std::nullopt;
      const auto alone = detail::find_duty_cycle(t, shapes[next].sms, std::span(&d, 1));
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
  static constexpr double fill = 1 - 1e-9; ///< part of a capacity that is used, against rounding
};

static_assert(partition_planner<squishy_bin_packing_planner>);

} // namespace gsched

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/capacity.hpp>
#include <gsched/partition/demand.hpp>
#include <gsched/partition/gpu_shape.hpp>
#include <gsched/partition/packing.hpp>
#include <gsched/partition/planner.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace gsched {

/// Whether models may take turns on a partition, besides having partitions of their own.
enum class time_sharing : bool { no, yes };

/// Partitions as large as each model makes good use of, dealt out greedily: for each model, the
/// busiest first, the smaller of the size at its knee and the least that is enough, again and again
/// until its rate is served. A piece goes where the least is left that is large enough; but if it
/// can take turns with who has a partition already, the split is not made.
///
/// Source   elastic partitioning: Choi et al., USENIX ATC 2022, algorithm 1. Without time sharing
/// it
///          is guided self-tuning, section 6.1 there, after GSLICE: Dhakal et al., SoCC 2020,
///          doi:10.1145/3419111.3421284.
/// Differs  what a split leaves can be split again: the paper's GPUs hold two partitions, green
///          contexts as many as there are groups; `most_gpulets` of 2 is the paper's. Where no
///          piece is as large as it should be, the largest that is left is taken, for what it can
///          do. Sizes are whole groups.
/// Order    rates falling, then as the demands come; GPUs in their order.
/// Cost     O(pieces x partitions) duty cycles.
template <time_sharing Sharing>
class greedy_partitioning {
public:
  static constexpr std::string_view name = Sharing == time_sharing::yes ? "elastic" : "self_tuning";

  explicit greedy_partitioning(std::uint32_t most_gpulets = 0xffffffff) noexcept
      : most_gpulets_(most_gpulets) {}

  template <interference_model Interference = no_interference>
  [[nodiscard]] std::optional<partition_plan>
  plan(const latency_table& t, std::span<const demand> demands, std::span<const gpu_shape> shapes,
       const Interference& beside = {}) const {
    packing<Interference> gpus(t, shapes, beside);
    std::vector<demand> busiest(demands.begin(), demands.end());
    std::stable_sort(busiest.begin(), busiest.end(),
                     [](const demand& a, const demand& b) { return a.rate > b.rate; });
    for (const demand& d : busiest)
      for (double served = 0; !is_served(d.rate, served);) {
        const double more = serve_some(t, {d.model, d.rate - served, d.slo}, gpus);
        if (!(more > 0)) return std::nullopt;
        served += more;
      }
    return gpus.plan();
  }

private:
  static constexpr double fill = 1 - 1e-9; ///< of a capacity, so that rounding makes nobody late

  /// How much of it one more partition, or a turn on one, serves; 0: there is no way.
  template <class Packing>
  [[nodiscard]] double serve_some(const latency_table& t, const demand& d, Packing& gpus) const {
    struct piece {
      std::uint32_t left, gpu, groups;
    };
    std::vector<piece> pieces;
    std::uint32_t ideal = 0;
    for (std::uint32_t g = 0; g < gpus.gpus(); ++g) {
      if (g == 0 || gpus.shape(g) != gpus.shape(g - 1)) ideal = ideal_groups(t, d, gpus.shape(g));
      if (ideal > 0) pieces.push_back({gpus.free_groups(g), g, ideal});
    }
    const auto enough = [](const piece& p) { return p.left >= p.groups; };
    std::stable_sort(pieces.begin(), pieces.end(), [&](const piece& a, const piece& b) {
      if (enough(a) != enough(b)) return enough(a);
      return enough(a) ? a.left - a.groups < b.left - b.groups : a.left > b.left;
    });
    // Take turns with somebody, for as much as the piece would serve.
    if (Sharing == time_sharing::yes && !pieces.empty()) {
      const piece& p = pieces.front();
      const demand part = part_on(t, d, gpus.shape(p.gpu), p.groups);
      for (std::uint32_t g = 0; part.rate > 0 && g < gpus.gpus(); ++g)
        for (std::uint32_t i = 0; i < gpus.gpulets(g); ++i)
          if (gpus.try_join(g, i, part)) return part.rate;
    }
    for (const piece& p : pieces) {
      if (gpus.gpulets(p.gpu) >= most_gpulets_) continue;
      // The last partition that a GPU may have takes all that is left.
      const bool last = gpus.gpulets(p.gpu) + 1 == most_gpulets_ && gpus.gpulets(p.gpu) > 0;
      const std::uint32_t groups = last ? p.left : std::min(p.left, p.groups);
      for (std::uint32_t n = groups; n > 0 && n <= p.left; ++n) { // larger, if others slow it
        const demand part = part_on(t, d, gpus.shape(p.gpu), groups);
        if (part.rate > 0 && gpus.try_add(p.gpu, n, part)) return part.rate;
      }
    }
    return 0;
  }

  /// The smaller of the knee and what is enough; 0 where the model cannot meet its SLO there.
  [[nodiscard]] static std::uint32_t ideal_groups(const latency_table& t, const demand& d,
                                                  const gpu_shape& shape) {
    const std::vector<sm_count> sizes = sizes_of(shape);
    const std::optional<sm_count> efficient = knee(t, d.model, d.slo, sizes);
    if (!efficient) return 0;
    const std::optional<sm_count> required = least_size(t, d, sizes);
    return shape.groups_for(required ? std::min(*required, *efficient) : *efficient);
  }

  [[nodiscard]] static demand part_on(const latency_table& t, const demand& d,
                                      const gpu_shape& shape, std::uint32_t groups) {
    if (groups == 0) return {d.model, 0, d.slo};
    const double most = capacity_of(t, d.model, shape.of_groups(groups), d.slo).rate * fill;
    return {d.model, std::min(d.rate, most), d.slo};
  }

  std::uint32_t most_gpulets_;
};

using elastic_partitioning = greedy_partitioning<time_sharing::yes>;
using guided_self_tuning = greedy_partitioning<time_sharing::no>;

static_assert(partition_planner<elastic_partitioning> && partition_planner<guided_self_tuning>);

} // namespace gsched

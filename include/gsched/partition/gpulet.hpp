// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/detail/packing/capacity_curves.hpp>
#include <gsched/partition/detail/packing/gpu_packing.hpp>
#include <gsched/partition/gpu_shape.hpp>
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

/// Whether several models may share a partition in time.
enum class time_sharing : bool { no, yes };

/// The planner of the gpu-lets paper, for comparisons with it; elastic_planner plans better.
///
/// The models in order of falling rate: until a model's rate is served, take the smaller of its
/// most efficient partition size and the smallest size that serves what is left of the rate; split
/// the remaining partition that fits best; and if the new partition can share an existing one in
/// time, put it there and revert the split. A GPU holds one partition or two.
///
/// Source   algorithm 1 of Choi et al., USENIX ATC 2022, section 4.3. Without time sharing: guided
///          self-tuning, section 6.1 there, after GSLICE: Dhakal et al., SoCC 2020,
///          doi:10.1145/3419111.3421284.
/// Differs  nowhere on purpose. Readings, where the paper is silent or ambiguous:
///          - A request waits for a cycle and for its batch, so "L(b, p) <= SLO" (line 27) holds
///            for cycle and batch together, as in section 2.2; the cycle is as long as the batch.
///            The largest such batch serves the highest rate of the partition.
///          - MAXEFFICIENTPARTITION is the size with the largest curvature of the served rate, both
///            axes as parts of their largest values, from differences to the next sizes; the
///            smallest of equals. A curve that bends nowhere downwards has its knee at the whole
///            GPU. Measured rates rise in steps of whole batches, and the knee follows these.
///          - MINREQUIREDPARTITION(rate_m, line 10) is for the part of the rate that is not yet
///            assigned, as the text of section 4.3 has it.
///          - Profiled sizes are all numbers of whole groups; the paper has a handful of percentages.
///          - Equally large remaining partitions are taken in order of their GPUs. A remaining part
///            of a split GPU is taken whole; only whole GPUs are split (line 23). If none is large
///            enough for the ideal size, the rates are not schedulable.
///          - Partitions are "temporally sharable" if one duty cycle serves both on the existing
///            partition; the first such partition, in order of allocation, is taken.
///          - int_f is the slow-down beside the worst neighbour (capacity_curves): lines 27 and 28
///            come before the second partition of a GPU is known. The batch is the largest that
///            meets the SLO with it; the paper takes the largest without, and then none if that one
///            is too late with it. MINREQUIREDPARTITION has it too; the knee is that of the profile,
///            without neighbours. Line 28 also holds for the neighbour that is there.
///          - For guided self-tuning, "the optimal partition computed for models" is the size above,
///            and a model may have several partitions.
/// Order    rates falling, then the order of `demands`; GPUs by index.
/// Cost     five models on four GPUs 0.05 ms, with interference 0.2 (bench/planning.cpp).
/// Threads  immutable.
template <time_sharing Sharing>
class algorithm_1_planner {
public:
  static constexpr std::string_view name = Sharing == time_sharing::yes ? "gpulet" : "self_tuning";

  template <interference_model Interference = no_interference>
  [[nodiscard]] std::optional<partition_plan>
  plan(const latency_table& t, std::span<const model_demand> demands,
       std::span<const gpu_shape> shapes, const Interference& beside = {}) const {
    std::vector<model_demand> busiest;
    for (const model_demand& d : demands)
      if (d.rate > 0) busiest.push_back(d);
    std::stable_sort(busiest.begin(), busiest.end(),
                     [](const model_demand& a, const model_demand& b) { return a.rate > b.rate; });
    const detail::capacity_curves curves(t, busiest, shapes, beside);
    detail::gpu_packing<Interference> gpus(t, shapes, beside);
    std::vector<partition> allocated;
    for (std::size_t d = 0; d < busiest.size(); ++d)
      for (double assigned = 0; !is_served(busiest[d].rate, assigned);) {
        const double more = find_best_fit(gpus, curves, allocated, d, busiest[d], assigned);
        if (!(more > 0)) return std::nullopt;
        assigned += more;
      }
    return gpus.plan();
  }

private:
  struct partition {
    std::uint32_t gpu = 0;
    std::uint32_t which = 0; ///< of the GPU's
  };
  /// A remaining partition, and the groups of it that are taken.
  struct remaining {
    std::uint32_t groups = 0, gpu = 0, taken = 0;
  };

  /// Places a part of a demand's rate and returns that part; 0 if no remaining partition fits.
  template <class Packing>
  [[nodiscard]] static double find_best_fit(Packing& gpus, const detail::capacity_curves& curves,
                                            std::vector<partition>& allocated, std::size_t d,
                                            const model_demand& demand, double assigned) {
    const double left = demand.rate - assigned;
    std::vector<std::uint32_t> ideal; // groups, by kind; 0: none
    for (std::size_t k = 0; k < curves.kinds(); ++k)
      ideal.push_back(std::min(knee(curves, k, d), curves.required(k, d, left)));
    std::vector<remaining> fits;
    for (std::uint32_t g = 0; g < gpus.gpus(); ++g) {
      const std::uint32_t groups = gpus.free_groups(g), wanted = ideal[curves.kind_of(g)];
      if (wanted == 0 || groups < wanted) continue;
      fits.push_back({groups, g, gpus.gpulets(g) == 0 ? wanted : groups});
    }
    std::stable_sort(fits.begin(), fits.end(),
                     [](const remaining& a, const remaining& b) { return a.groups < b.groups; });
    for (const remaining& r : fits) {
      model_demand part = demand;
      part.rate = std::min(left, curves.rate(curves.kind_of(r.gpu), d, r.taken));
      Packing split = gpus;
      if (!(part.rate > 0) || !split.try_add(r.gpu, r.taken, part)) continue;
      if (Sharing == time_sharing::yes)
        for (const partition& p : allocated)
          if (gpus.try_join(p.gpu, p.which, part)) return part.rate; // and the split is reverted
      gpus = std::move(split);
      allocated.push_back({r.gpu, gpus.gpulets(r.gpu) - 1});
      return part.rate;
    }
    return 0;
  }

  /// MAXEFFICIENTPARTITION: the groups at the knee of a demand's rates; 0: no size has a rate.
  [[nodiscard]] static std::uint32_t knee(const detail::capacity_curves& curves, std::size_t k,
                                          std::size_t d) {
    const std::uint32_t all = curves.shape(k).groups();
    const double most = curves.solo_rate(k, d, all), step = 1.0 / all;
    if (!(most > 0)) return 0;
    const auto rate = [&](std::uint32_t n) {
      return n == 0 ? 0 : curves.solo_rate(k, d, n) / most;
    };
    double largest = least_curvature;
    std::uint32_t at = all;
    for (std::uint32_t n = 1; n < all; ++n) {
      const double slope = (rate(n + 1) - rate(n - 1)) / (2 * step);
      const double bend = (2 * rate(n) - rate(n + 1) - rate(n - 1)) / (step * step);
      const double curvature = bend / std::pow(1 + slope * slope, 1.5);
      if (curvature <= largest) continue;
      largest = curvature;
      at = n;
    }
    return at;
  }

  static constexpr double least_curvature = 1e-3; ///< below it a curve is straight
};

/// The paper's planner; its command-line name is "gpulet".
using gpulet_planner = algorithm_1_planner<time_sharing::yes>;
/// The paper's guided self-tuning; its command-line name is "self_tuning".
using self_tuning_planner = algorithm_1_planner<time_sharing::no>;

static_assert(partition_planner<gpulet_planner> && partition_planner<self_tuning_planner>);

} // namespace gsched

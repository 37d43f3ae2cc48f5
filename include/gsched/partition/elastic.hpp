// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/detail/capacity_curves.hpp>
#include <gsched/partition/detail/elastic_pass.hpp>
#include <gsched/partition/gpu_shape.hpp>
#include <gsched/partition/model_demand.hpp>
#include <gsched/partition/planner.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

namespace gsched {

/// Greedy planner: places the demands in order of falling rate. For each demand it repeats until
/// the rate is served: the partition size is the smaller of the model's most efficient size and the
/// smallest size that serves the remaining rate, and the partition goes to the GPU where it wastes
/// the least. A model first joins an existing partition, in time, if all SLOs still hold.
///
/// Source   elastic partitioning: Choi et al., USENIX ATC 2022, algorithm 1, which is gpulet_planner
///          word for word.
/// Differs  where the paper leaves a choice, or where a GPU has many groups:
///          - The most efficient size has the highest rate per group. The paper takes the point of
///            largest curvature, but measured rates rise in steps of whole batches, so curvature
///            follows noise.
///          - Sizes within 2% of the best rate per group count as equally efficient. A later pass
///            sets this tolerance to 0.
///          - The rest of a split GPU can be split again. The paper's GPUs hold two partitions.
///          - The best fit wastes the fewest groups: a free group is wasted if neither this demand
///            nor a later one can use it well. The paper minimises the number of free groups.
///          - If no GPU has enough free groups, the planner takes the largest free range for a part
///            of the rate.
///          - A partition is planned with the slow-down of the worst neighbours that may come
///            (capacity_curves), scaled by 0.95, in a later pass by 1.05; time sharing too. Once a
///            GPU is full, its partitions take extra rate where the actual neighbours are milder,
///            before a new partition is made. If existing partitions would miss an SLO, smaller
///            sizes are tried, at nine tenths of their rates.
///          - With interference the greedy pass can fail at one rate and succeed at a higher one.
///            So the planner finally tries 1.05, 1.1, 1.2, 1.4, ... times the rates.
///          Sizes are whole groups.
/// Order    rates falling, then the order of `demands`; GPUs by index.
/// Cost     five models on four GPUs 0.05 ms, with interference 0.2 (bench/planning.cpp). Without a
///          plan, up to two passes, with interference a dozen.
/// Threads  immutable.
class elastic_planner {
public:
  static constexpr std::string_view name = "elastic";

  template <interference_model Interference = no_interference>
  [[nodiscard]] std::optional<partition_plan>
  plan(const latency_table& t, std::span<const model_demand> demands,
       std::span<const gpu_shape> shapes, const Interference& beside = {}) const {
    constexpr bool alone = std::is_same_v<Interference, no_interference>;
    std::vector<model_demand> busiest;
    for (const model_demand& d : demands)
      if (d.rate > 0) busiest.push_back(d);
    std::stable_sort(busiest.begin(), busiest.end(),
                     [](const model_demand& a, const model_demand& b) { return a.rate > b.rate; });
    detail::capacity_curves curves(t, busiest, shapes, beside);
    const double most = scale_bound(busiest, shapes, curves);
    if (most < 1 - 1e-6) return std::nullopt;
    const auto run = [&](const pass_settings& s) {
      curves.set_caution(s.caution);
      return detail::elastic_pass(t, busiest, shapes, beside, curves, s.tolerance).run();
    };
    for (const pass_settings& s : passes)
      if (!alone || s.caution == passes[0].caution)
        if (std::optional<partition_plan> plan = run(s)) return plan;
    double scale = 1;
    for (double more = first_more; !alone && 1 + more < most; more *= 2) {
      for (model_demand& d : busiest) d.rate *= (1 + more) / scale;
      scale = 1 + more;
      if (std::optional<partition_plan> plan = run(passes[0])) return plan;
    }
    return std::nullopt;
  }

private:
  struct pass_settings {
    double caution;   ///< scales the slow-down that the worst neighbours cause
    double tolerance; ///< of rates per group that count as equally efficient
  };
  static constexpr std::array<pass_settings, 3> passes{{{0.95, 0.02}, {1.05, 0.02}, {0.95, 0}}};
  static constexpr double first_more = 0.05;

  /// Upper bound: no plan serves the rates times more than this, even if every SM ran each model at
  /// that model's best rate per SM.
  [[nodiscard]] static double scale_bound(std::span<const model_demand> demands,
                                          std::span<const gpu_shape> shapes,
                                          const detail::capacity_curves& curves) {
    double available = 0, wanted = 0;
    for (const gpu_shape& s : shapes) available += s.sms.count();
    for (std::size_t d = 0; d < demands.size(); ++d) {
      double least = std::numeric_limits<double>::infinity(); // SMs for one request a second
      for (std::size_t k = 0; k < curves.kinds(); ++k)
        for (std::uint32_t n = 1; n <= curves.shape(k).groups(); ++n)
          if (const double rate = curves.solo_rate(k, d, n); rate > 0)
            least = std::min(least, curves.shape(k).of_groups(n).count() / rate);
      wanted += least * demands[d].rate;
    }
    return wanted > 0 ? available / wanted : std::numeric_limits<double>::infinity();
  }
};

static_assert(partition_planner<elastic_planner>);

} // namespace gsched

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/detail/packing/capacity_curves.hpp>
#include <gsched/partition/detail/packing/elastic_pass.hpp>
#include <gsched/partition/gpu_shape.hpp>
#include <gsched/partition/model_demand.hpp>
#include <gsched/partition/planner.hpp>
#include <gsched/partition/squishy_bin_packing.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
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
///            (capacity_curves), scaled by 0.95, in later passes by 0.7 to 1.05; time sharing too.
///            Once a GPU is full, its partitions take extra rate where the actual neighbours are
///            milder, before a new partition is made. If existing partitions would miss an SLO,
///            smaller sizes are tried, at nine tenths of their rates.
///          - Where a pass finds no plan, others follow: demands in other orders (by size, by load),
///            more or less caution, and demands that fill whole GPUs first, which nothing slows;
///            at last squishy bin packing.
///          Sizes are whole groups.
/// Order    rates falling, in later passes sizes falling or loads rising; then the order of
///          `demands`; GPUs by index.
/// Cost     five models on four GPUs 0.05 ms, with interference 0.25 (bench/planning.cpp). Up to nine
///          passes.
/// Threads  immutable.
class elastic_planner {
public:
  static constexpr std::string_view name = "elastic";

  /// Shares SMs only with an interference model that predicts their slow-downs.
  explicit elastic_planner(sm_sharing sharing = sm_sharing::never) noexcept : sharing_(sharing) {}

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
    const bool shares = sharing_ != sm_sharing::never;
    if (!shares && scale_bound(busiest, shapes, curves) < 1 - 1e-6) return std::nullopt;
    const auto run = [&](const pass_settings& s) {
      curves.set_caution(s.caution);
      const std::vector<std::size_t> order = ordered(busiest, curves, s.order);
      return detail::elastic_pass(t, busiest, shapes, beside, curves,
                                  {order, s.tolerance, s.whole_gpus_first, sharing_})
          .run();
    };
    for (const pass_settings& s : passes)
      if (!alone || !s.only_beside)
        if (std::optional<partition_plan> plan = run(s)) return plan;
    if (shares) return std::nullopt;
    return squishy_bin_packing_planner{}.plan(t, demands, shapes, beside);
  }

private:
  enum class demand_order : std::uint8_t { rate_falling, size_falling, load_rising };
  struct pass_settings {
    demand_order order;
    double caution;        ///< scales the slow-down that the worst neighbours cause
    double tolerance;      ///< of rates per group that count as equally efficient
    bool whole_gpus_first; ///< fills empty GPUs with one demand each, where it has the rate
    bool only_beside;      ///< another pass is the same without interference
  };
  static constexpr std::array<pass_settings, 8> passes{
      {{demand_order::rate_falling, 0.95, 0.02, false, false},
       {demand_order::rate_falling, 1.05, 0.02, false, true},
       {demand_order::rate_falling, 0.95, 0, false, false},
       {demand_order::size_falling, 0.85, 0, true, false},
       {demand_order::load_rising, 0.7, 0, true, false},
       {demand_order::load_rising, 1, 0, false, false},
       {demand_order::size_falling, 0.95, 0, false, false},
       {demand_order::size_falling, 0.7, 0, true, true}}};
  /// The order of demands that are sorted by falling rate. The size of a demand is that of its most
  /// efficient partitions, its load the SMs of all of them.
  [[nodiscard]] static std::vector<std::size_t> ordered(std::span<const model_demand> demands,
                                                        const detail::capacity_curves& curves,
                                                        demand_order by) {
    std::vector<std::pair<double, std::size_t>> keys;
    for (std::size_t d = 0; d < demands.size(); ++d) {
      double size = 0, load = std::numeric_limits<double>::infinity();
      for (std::size_t k = 0; k < curves.kinds(); ++k) {
        const std::uint32_t n = curves.efficient(k, d);
        if (n == 0) continue;
        const double sms = curves.shape(k).of_groups(n).count();
        size = std::max(size, sms);
        load = std::min(load, demands[d].rate / curves.rate(k, d, n) * sms);
      }
      keys.emplace_back(by == demand_order::rate_falling   ? 0
                        : by == demand_order::size_falling ? -size
                                                           : load,
                        d);
    }
    std::sort(keys.begin(), keys.end());
    std::vector<std::size_t> sorted;
    sorted.reserve(keys.size());
    for (const auto& [key, d] : keys) sorted.push_back(d);
    return sorted;
  }

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

  sm_sharing sharing_;
};

static_assert(partition_planner<elastic_planner>);

} // namespace gsched

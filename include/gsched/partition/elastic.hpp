// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/detail/packing/capacity_curves.hpp>
#include <gsched/partition/detail/packing/elastic_pass.hpp>
#include <gsched/partition/feasibility.hpp>
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
#include <utility>
#include <vector>

namespace gsched {

/// Greedy planner: places the demands in order of falling rate. For each demand it repeats until
/// the rate is served: the partition size is the smaller of the model's most efficient size and the
/// smallest size that serves the remaining rate, and the partition goes to the GPU where it wastes
/// the least. A model first joins an existing partition, in time, if all SLOs still hold.
///
/// Source   elastic partitioning: Choi et al., USENIX ATC 2022, algorithm 1, which is
///          gpulet_planner line by line.
/// Differs  where the paper leaves a choice, or where a GPU has many groups:
///          - The most efficient size has the highest rate per group. The paper takes the point of
///            largest curvature, but measured rates rise in steps of whole batches, so curvature
///            follows noise.
///          - Sizes within 2% of the best rate per group count as equally efficient. Some later
///            passes have no such tolerance.
///          - The rest of a split GPU can be split again. The paper's GPUs hold two partitions.
///          - The best fit wastes the fewest groups: a free group is wasted if neither this demand
///            nor a later one can use it well. The paper minimises the number of free groups.
///          - If no GPU has enough free groups, the planner takes the largest free range for a part
///            of the rate.
///          - A partition is planned with the slow-down of the worst neighbours that may come
///            (capacity_curves), scaled by 0.95, in later passes by 0.8 to 1.05; time sharing too.
///            Once a GPU is full, its partitions take extra rate where the actual neighbours are
///            milder, before a new partition is made. If existing partitions would miss an SLO,
///            smaller sizes are tried, at nine tenths of their rates.
///          - Where a pass finds no plan, the demand that found no room comes first in the next
///            one, as in squeaky-wheel optimisation (Joslin and Clements, JAIR 10, 1999). After
///            three such passes others follow: demands in other orders (by load, by size), more or
///            less caution, and demands that fill whole GPUs first, which nothing slows; at last
///            squishy bin packing.
///          - If none of these finds a plan, all of them run again without the last group of each
///            GPU, and so on until too few SMs are left. So rates with a plan without the last
///            groups have one with them; of other smaller GPUs, or fewer, that is not certain.
///            Plans that share SMs have no such passes.
///          Sizes are whole groups, and the partition that fills a GPU also uses the remainder.
/// Order    rates falling, in later passes loads rising or sizes falling; then the order of
///          `demands`; GPUs by index.
/// Cost     five models on four GPUs 0.05 ms, with interference 0.5 (bench/planning.cpp); without a
///          plan up to 13 passes for each number of groups that may be enough: with interference 2
///          to 6 ms, rarely 10.
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
    std::vector<model_demand> busiest;
    for (const model_demand& d : demands)
      if (d.rate > 0) busiest.push_back(d);
    std::stable_sort(busiest.begin(), busiest.end(),
                     [](const model_demand& a, const model_demand& b) { return a.rate > b.rate; });
    std::vector<gpu_shape> fewer(shapes.begin(), shapes.end());
    do {
      planning_result found = try_shapes(t, demands, busiest, fewer, beside);
      if (found.status != feasibility::unknown || sharing_ != sm_sharing::never)
        return std::move(found.plan);
    } while (try_drop_last_groups(fewer));
    return std::nullopt;
  }

private:
  /// The passes on one set of shapes. `busiest` are the demands by falling rate.
  template <class Interference>
  [[nodiscard]] planning_result
  try_shapes(const latency_table& t, std::span<const model_demand> demands,
             std::span<const model_demand> busiest, std::span<const gpu_shape> shapes,
             const Interference& beside) const {
    detail::capacity_curves curves(t, busiest, shapes, beside);
    const bool shares = sharing_ != sm_sharing::never;
    if (!shares && scale_bound(busiest, shapes, curves) < 1 - 1e-6)
      return {feasibility::infeasible};
    for (const pass_settings& s : settings) {
      curves.set_caution(s.caution);
      std::vector<std::size_t> order = ordered(busiest, curves, s.order);
      for (int pass = 0; pass < passes_each; ++pass) {
        detail::elastic_pass greedy(t, busiest, shapes, beside, curves,
                                    {order, s.tolerance, s.whole_gpus_first, sharing_});
        if (std::optional<partition_plan> plan = greedy.run())
          return {feasibility::feasible, std::move(plan)};
        const auto failed = order.begin() + static_cast<std::ptrdiff_t>(greedy.failed_at());
        if (failed == order.begin()) break;
        std::rotate(order.begin(), failed, failed + 1);
      }
    }
    if (shares) return {};
    std::optional<partition_plan> whole =
        squishy_bin_packing_planner{}.plan(t, demands, shapes, beside);
    return {whole ? feasibility::feasible : feasibility::unknown, std::move(whole)};
  }

  enum class demand_order : std::uint8_t { rate_falling, size_falling, load_rising };
  struct pass_settings {
    demand_order order;
    double caution;        ///< scales the slow-down that the worst neighbours cause
    double tolerance;      ///< of rates per group that count as equally efficient
    bool whole_gpus_first; ///< fills empty GPUs with one demand each, where it has the rate
  };
  static constexpr std::array<pass_settings, 4> settings{
      {{demand_order::rate_falling, 0.95, 0.02, false},
       {demand_order::load_rising, 1.05, 0, false},
       {demand_order::load_rising, 0.8, 0.02, true},
       {demand_order::size_falling, 0.8, 0, true}}};
  static constexpr int passes_each = 3;
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
        least = std::min(least, least_sms(curves, k, d));
      wanted += least * demands[d].rate;
    }
    return wanted > 0 ? available / wanted : std::numeric_limits<double>::infinity();
  }

  /// The fewest SMs of a kind of GPU for one request a second of a demand, without neighbours.
  [[nodiscard]] static double least_sms(const detail::capacity_curves& curves, std::size_t k,
                                        std::size_t d) {
    const gpu_shape& s = curves.shape(k);
    double least = std::numeric_limits<double>::infinity();
    for (std::uint32_t n = 1; n <= s.groups(); ++n)
      if (const double rate = curves.solo_rate(k, d, n); rate > 0)
        least = std::min(least, s.of_groups(n).count() / rate);
    for (std::uint32_t n = 1; n < s.groups(); ++n)
      if (s.filling(n).count() < least * curves.solo_rate(k, d, n + 1)) // which is not lower
        if (const double rate = curves.solo_filling_rate(k, d, n); rate > 0)
          least = std::min(least, s.filling(n).count() / rate);
    return least;
  }

  sm_sharing sharing_;
};

static_assert(partition_planner<elastic_planner>);

} // namespace gsched

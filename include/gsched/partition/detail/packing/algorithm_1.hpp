// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/partition/detail/packing/capacity.hpp>
#include <gsched/partition/detail/packing/capacity_curves.hpp>
#include <gsched/partition/detail/packing/gpu_packing.hpp>
#include <gsched/partition/gpu_shape.hpp>
#include <gsched/partition/interference.hpp>
#include <gsched/partition/latency_table.hpp>
#include <gsched/partition/model_demand.hpp>
#include <gsched/partition/plan.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace gsched {

/// Whether several models may share a partition in time.
enum class time_sharing : bool { no, yes };

namespace detail {

/// A partition without a model: an element of remain_gpulets.
struct remaining_partition {
  std::uint32_t gpu = 0, groups = 0;
  bool can_split = false; ///< a GPU that is not cut yet: of size 100
};

/// Whole GPUs, which algorithm 1 splits (line 2).
[[nodiscard]] inline std::vector<remaining_partition>
whole_gpus(std::span<const gpu_shape> shapes) {
  std::vector<remaining_partition> all;
  for (const gpu_shape& s : shapes)
    all.push_back({static_cast<std::uint32_t>(all.size()), s.groups(), true});
  return all;
}

/// The demands that have a rate, by falling rate (line 3).
[[nodiscard]] inline std::vector<model_demand>
by_falling_rate(std::span<const model_demand> demands) {
  std::vector<model_demand> busiest;
  for (const model_demand& d : demands)
    if (d.rate > 0) busiest.push_back(d);
  std::stable_sort(busiest.begin(), busiest.end(),
                   [](const model_demand& a, const model_demand& b) { return a.rate > b.rate; });
  return busiest;
}

/// MAXEFFICIENTPARTITION (line 9): the groups at the knee of a demand's rates without neighbours;
/// 0: no size has a rate.
[[nodiscard]] inline std::uint32_t knee_of(const capacity_curves& curves, std::size_t kind,
                                           std::size_t d) {
  constexpr double least_curvature = 1e-3; // below it a curve is straight
  const std::uint32_t all = curves.shape(kind).groups();
  const double most = curves.solo_rate(kind, d, all), step = 1.0 / all;
  if (!(most > 0)) return 0;
  const auto rate = [&](std::uint32_t n) {
    return n == 0 ? 0 : curves.solo_rate(kind, d, n) / most;
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

/// One run of algorithm 1 of the gpu-lets paper; gpulet_planner documents its readings. Numbers in
/// comments are lines of the algorithm.
///
/// Cost     O(partitions) steps of gpu_packing for each partition of the plan.
/// Threads  one owner.
template <interference_model Interference>
class algorithm_1 {
public:
  /// `curves` are those of `busiest` without interference. All but `remain` outlive it.
  algorithm_1(const latency_table& t, std::span<const model_demand> busiest,
              std::span<const gpu_shape> shapes, const Interference& beside,
              const capacity_curves& curves, std::vector<remaining_partition> remain,
              time_sharing sharing)
      : table_(t), busiest_(busiest), curves_(curves), remain_(std::move(remain)),
        gpus_(t, shapes, beside), sharing_(sharing) {}

  [[nodiscard]] std::optional<partition_plan> run() {
    for (std::size_t d = 0; d < busiest_.size(); ++d)                      // 5
      for (double assigned = 0; !is_served(busiest_[d].rate, assigned);) { // 7, 8
        const double more = find_best_fit(d, busiest_[d].rate - assigned); // 9 to 14
        if (!(more > 0)) return std::nullopt;
        assigned += more; // 15
      }
    return gpus_.plan(); // 18
  }

private:
  static constexpr double fill = 1 - 1e-9; ///< part of a rate that is used, against rounding

  struct allocated_partition {
    std::uint32_t gpu = 0, which = 0; ///< of the GPU's
  };

  /// Places a part of the rate that is left of a demand and returns that part; 0 if no remaining
  /// partition fits.
  [[nodiscard]] double find_best_fit(std::size_t d, double left) {
    std::vector<std::uint32_t> ideal; // groups, by kind; 0: none
    for (std::size_t k = 0; k < curves_.kinds(); ++k)
      ideal.push_back(std::min(knee_of(curves_, k, d), curves_.required(k, d, left))); // 9 to 11
    std::sort(remain_.begin(), remain_.end(), [](const auto& a, const auto& b) {       // 20
      return std::tie(a.groups, a.gpu) < std::tie(b.groups, b.gpu);
    });
    for (std::size_t i = 0; i < remain_.size(); ++i) { // 21
      const remaining_partition r = remain_[i];
      const std::uint32_t wanted = ideal[curves_.kind_of(r.gpu)];
      if (wanted == 0 || r.groups < wanted) continue;               // 22
      const std::uint32_t groups = r.can_split ? wanted : r.groups; // 23 to 26
      model_demand part = busiest_[d];
      part.rate = std::min(left, rate_on(part, r.gpu, groups)); // 27, 28
      packing after = gpus_;
      if (!(part.rate > 0) || !after.try_add(r.gpu, groups, part)) continue;
      if (sharing_ == time_sharing::yes)
        for (const allocated_partition& a : allocated_) // 33
          if (gpus_.try_join(a.gpu, a.which, part))
            return part.rate; // 34 to 37: the split is undone
      gpus_ = std::move(after);
      allocated_.push_back({r.gpu, gpus_.gpulets(r.gpu) - 1}); // 13
      remain_[i] = {r.gpu, r.groups - groups, false};          // 14, 24
      return part.rate;                                        // 40
    }
    return 0;
  }

  /// The most that a new partition serves beside those of its GPU; 0 if line 28 does not hold.
  [[nodiscard]] double rate_on(const model_demand& d, std::uint32_t gpu,
                               std::uint32_t groups) const {
    const sm_count sms = gpus_.shape(gpu).of_groups(groups);
    const std::uint32_t batch = largest_batch(table_, d.model, sms, d.slo); // 27
    if (batch == 0) return 0;
    const double factor = gpus_.slowdown_of_new(gpu, groups, d, batch);
    if (planned_latency(table_, d.model, batch, sms, factor) > d.slo) return 0; // 28
    return fill * capacity_of(table_, d.model, sms, d.slo, factor).rate;
  }

  using packing = gpu_packing<Interference>;

  const latency_table& table_;
  std::span<const model_demand> busiest_;
  const capacity_curves& curves_;
  std::vector<remaining_partition> remain_;    ///< remain_gpulets; some may have no groups
  std::vector<allocated_partition> allocated_; ///< alloc_gpulets, in order of allocation
  packing gpus_;
  time_sharing sharing_;
};

} // namespace detail
} // namespace gsched

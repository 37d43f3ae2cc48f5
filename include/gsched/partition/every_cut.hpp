// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/detail/packing/algorithm_1.hpp>
#include <gsched/partition/detail/packing/capacity_curves.hpp>
#include <gsched/partition/gpu_shape.hpp>
#include <gsched/partition/gpulet.hpp>
#include <gsched/partition/interference.hpp>
#include <gsched/partition/latency_table.hpp>
#include <gsched/partition/model_demand.hpp>
#include <gsched/partition/plan.hpp>
#include <gsched/partition/planner.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace gsched {

/// The ideal scheduler of the gpu-lets paper, for comparisons with it: gpulet_planner, and where
/// that has no plan, algorithm 1 on every choice of one cut for each GPU, until one has a plan. A
/// cut is a whole GPU or two partitions of it. Its command-line name is "gpulet_cuts".
///
/// exact_two_partition_planner finds more: there a demand need not have partitions of its ideal
/// size or larger, and rates are not given out greedily.
///
/// Source   Choi et al., USENIX ATC 2022, section 6.2, figure 15: "exhaustively trying all possible
///          gpu-let combinations available for a given set of partitions", 4^4 for four GPUs with
///          four cuts each.
/// Differs  nowhere on purpose. Readings, where the paper is silent:
///          - Given partitions are filled by algorithm 1 without lines 23 to 26 and 36: nothing is
///            split, and a partition that is merged is again without a model.
///          - GPUs of the same shape are interchangeable, so 4 of them with 9 cuts have 495
///            choices.
///          - gpulet_planner comes first, so that its plans are never missed.
/// Order    demands as gpulet_planner; whole GPUs first, then cuts by their smaller part.
/// Cost     five models on four GPUs of 16 groups without a plan 20 to 30 ms. Choices are tried up
///          to most_work: all of up to eight GPUs of 16 groups for five demands.
/// Threads  immutable.
class every_cut_planner {
public:
  static constexpr std::string_view name = "gpulet_cuts";
  static constexpr std::size_t most_work = 4'200'000; ///< choices x demands x GPUs^2

  template <interference_model Interference = no_interference>
  [[nodiscard]] std::optional<partition_plan>
  plan(const latency_table& t, std::span<const model_demand> demands,
       std::span<const gpu_shape> shapes, const Interference& beside = {}) const {
    std::optional<partition_plan> found = gpulet_planner{}.plan(t, demands, shapes, beside);
    if (found) return found;
    const std::vector<model_demand> busiest = detail::by_falling_rate(demands);
    const detail::capacity_curves curves(t, busiest, shapes, no_interference{});
    std::vector<std::uint32_t> smaller; // part of each GPU, in groups; 0: not cut
    const std::size_t work = busiest.size() * shapes.size() * shapes.size();
    std::size_t left = most_work / std::max<std::size_t>(1, work); // choices
    const auto choose = [&](const auto& next) -> void {
      if (found || left == 0) return;
      const auto gpu = static_cast<std::uint32_t>(smaller.size());
      if (gpu == shapes.size()) {
        --left;
        found = detail::algorithm_1(t, busiest, shapes, beside, curves, cut(shapes, smaller),
                                    time_sharing::yes)
                    .run();
        return;
      }
      std::uint32_t from = 0; // that of the last GPU of the same kind
      for (std::uint32_t g = 0; g < gpu; ++g)
        if (curves.kind_of(g) == curves.kind_of(gpu)) from = smaller[g];
      for (std::uint32_t n = from; n <= shapes[gpu].groups() / 2; ++n) {
        smaller.push_back(n);
        next(next);
        smaller.pop_back();
      }
    };
    choose(choose);
    return found;
  }

private:
  [[nodiscard]] static std::vector<detail::remaining_partition>
  cut(std::span<const gpu_shape> shapes, std::span<const std::uint32_t> smaller) {
    std::vector<detail::remaining_partition> all;
    for (std::uint32_t g = 0; g < shapes.size(); ++g)
      for (const std::uint32_t groups : {smaller[g], shapes[g].groups() - smaller[g]})
        if (groups > 0) all.push_back({g, groups, false});
    return all;
  }
};

static_assert(partition_planner<every_cut_planner>);

} // namespace gsched

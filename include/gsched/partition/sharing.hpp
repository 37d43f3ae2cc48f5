// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/elastic.hpp>
#include <gsched/partition/gpu_shape.hpp>
#include <gsched/partition/interference.hpp>
#include <gsched/partition/latency_table.hpp>
#include <gsched/partition/model_demand.hpp>
#include <gsched/partition/plan.hpp>
#include <gsched/partition/planner.hpp>

#include <optional>
#include <span>
#include <string_view>
#include <utility>

namespace gsched {

/// A planner that also lets models run at the same time on the same SMs: it returns the plan of
/// `Planner`, in which each model has SMs or turns of its own. Where that has none, it searches with
/// elastic_planner, which then also adds partitions on the SMs of others (gpulet::region): first
/// where nothing else is left, then before it cuts off more SMs.
///
/// A part of a demand goes to the partition where most of its rate can run, and only if all SLOs
/// still hold with the slow-downs that are predicted on shared SMs, of batches that always run
/// beside each other.
///
/// Source   gsched's own; the choice between spatial sharing by partitions and by streams is of
///          Choi et al., USENIX ATC 2022, figure 5.
/// Differs  the planner is greedy: that it finds no plan proves nothing.
/// Cost     that of Planner; without a plan up to 16 passes of elastic_planner, and a simulation of
///          some milliseconds for each combination of batches on shared SMs that is new.
/// Threads  immutable.
template <class Planner>
class sharing_planner {
public:
  static constexpr std::string_view name = Planner::name;

  explicit sharing_planner(Planner base = Planner{}) noexcept : base_(std::move(base)) {}

  template <shared_sm_interference Interference>
  [[nodiscard]] std::optional<partition_plan>
  plan(const latency_table& t, std::span<const model_demand> demands,
       std::span<const gpu_shape> shapes, const Interference& beside) const {
    std::optional<partition_plan> found = base_.plan(t, demands, shapes, beside);
    for (const sm_sharing how : {sm_sharing::last, sm_sharing::first})
      if (!found) found = elastic_planner(how).plan(t, demands, shapes, beside);
    return found;
  }

private:
  Planner base_;
};

} // namespace gsched

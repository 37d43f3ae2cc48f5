// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/partition/elastic.hpp>
#include <gsched/partition/gpu_shape.hpp>
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
#include <tuple>
#include <utility>
#include <vector>

namespace gsched {

/// A planner that also lets models run at the same time on the same SMs. It compares the plan of
/// `Planner`, in which each model has SMs or turns of its own, with one of elastic_planner that
/// adds partitions on the SMs of others (gpulet::region) before it cuts off more SMs, and returns
/// the plan on fewer GPUs; of equal ones that on fewer SMs, then that with the smaller worst
/// latency over its SLO, then that of `Planner`. Where `Planner` has no plan, elastic_planner first
/// shares SMs where nothing else is left.
///
/// A part of a demand goes to the partition where most of its rate can run, and only if all SLOs
/// still hold with the slow-downs that are predicted on shared SMs, of batches that always run
/// beside each other.
///
/// Source   gsched's own; the choice between spatial sharing by partitions and by streams is of
///          Choi et al., USENIX ATC 2022, figure 5.
/// Differs  the planner is greedy: that it finds no plan proves nothing.
/// Cost     that of Planner, up to 16 passes of elastic_planner, and a simulation of some 100 ms
///          for each combination of batches on shared SMs that is new.
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
    if (!found) found = elastic_planner(sm_sharing::last).plan(t, demands, shapes, beside);
    std::optional<partition_plan> other =
        elastic_planner(sm_sharing::first).plan(t, demands, shapes, beside);
    if (!found ||
        (other && cost_of(*other, t, demands, beside) < cost_of(*found, t, demands, beside)))
      found = std::move(other);
    return found;
  }

private:
  /// What a plan takes: GPUs, SMs, and the largest part of an SLO.
  using cost = std::tuple<std::size_t, std::uint32_t, double>;

  template <class Interference>
  [[nodiscard]] static cost cost_of(const partition_plan& plan, const latency_table& t,
                                    std::span<const model_demand> demands,
                                    const Interference& beside) {
    std::size_t gpus = 0;
    double worst = 0;
    for (const std::vector<gpulet>& here : by_gpu(plan)) {
      if (!here.empty()) ++gpus;
      for (std::size_t i = 0; i < here.size(); ++i)
        for (const portion& p : here[i].portions) {
          const duration answer = here[i].cycle + planned_latency(t, p.model, p.batch, here[i].sms,
                                                                  beside(here, i, p.model));
          for (const model_demand& d : demands)
            if (d.model == p.model) worst = std::max(worst, to_us(answer) / to_us(d.slo));
        }
    }
    return {gpus, sms_of(plan), worst};
  }

  Planner base_;
};

} // namespace gsched

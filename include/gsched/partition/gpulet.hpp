// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/detail/packing/algorithm_1.hpp>
#include <gsched/partition/detail/packing/capacity_curves.hpp>
#include <gsched/partition/gpu_shape.hpp>
#include <gsched/partition/interference.hpp>
#include <gsched/partition/model_demand.hpp>
#include <gsched/partition/planner.hpp>

#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace gsched {

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
/// Differs  in two lines from the printed algorithm, by the first two readings. Readings, where the
///          paper is silent, ambiguous or at odds with its listing:
///          - Line 10 prints MINREQUIREDPARTITION(rate_m). Here it is for the part of rate_m that is
///            not yet assigned: "the unhandled request rate [...] is handled in the next iteration"
///            (section 4.3). With all of rate_m the last partition of each model would have the
///            size at the knee.
///          - Line 28 as printed holds for the new partition only. Here a remaining partition is
///            passed over too if the partition beside it would miss an SLO, for that plan would not
///            be valid. No line takes back an assigned rate. So a partition that was given all that
///            it serves alone gets no partition beside it that slows it.
///          - Lines 27 and 28 compare the latency of a batch with the SLO, as they are printed, and
///            the batch of line 28 is that of line 27: if it is too late with int_f, the next
///            remaining partition is tried, not a smaller batch.
///          - int_f (line 28) is the slow-down of that batch beside the partitions that the GPU has
///            at that time: the algorithm knows no others. On a GPU that is split for this
///            partition there are none.
///          - The "rate assigned to gpulet" (line 15) is at most the affordable rate of figure 8,
///            with int_f: a request waits for a cycle and for its batch, so both together meet the
///            SLO (section 2.2), and the cycle is as long as the batch.
///          - MAXEFFICIENTPARTITION (line 9) and MINREQUIREDPARTITION (line 10) are of the profile,
///            without neighbours: only FINDBESTFIT has int_f as an argument.
///          - MAXEFFICIENTPARTITION is the size with the largest curvature of the served rate, both
///            axes as parts of their largest values, from differences to the next sizes; the
///            smallest of equals. A curve that bends nowhere downwards has its knee at the whole
///            GPU. Measured rates rise in steps of whole batches, and the knee follows these.
///          - Profiled sizes are all numbers of whole groups; the paper has a handful of
///            percentages.
///          - Equally large remaining partitions are taken in order of their GPUs. A remaining part
///            of a split GPU is taken whole; only whole GPUs are split (line 23). If no remaining
///            partition passes line 28, the rates are not schedulable: lines 33 to 39 are for a
///            partition that was found ("after a gpulet is chosen").
///          - Partitions are "temporally sharable" (line 34) if one duty cycle serves both on the
///            existing partition, with its interference; the first such partition, in order of
///            allocation, is taken.
///          - The plan's batches and cycles are those that leave the most time (find_duty_cycle);
///            the batch of line 27 is for choosing a partition and its rate.
///          - For guided self-tuning, "the optimal partition computed for models" is the size
///            above, and a model may have several partitions.
/// Order    rates falling, then the order of `demands`; GPUs by index.
/// Cost     five models on four GPUs 0.05 ms (bench/planning.cpp).
/// Threads  immutable.
template <time_sharing Sharing>
class algorithm_1_planner {
public:
  static constexpr std::string_view name = Sharing == time_sharing::yes ? "gpulet" : "self_tuning";

  template <interference_model Interference = no_interference>
  [[nodiscard]] std::optional<partition_plan>
  plan(const latency_table& t, std::span<const model_demand> demands,
       std::span<const gpu_shape> shapes, const Interference& beside = {}) const {
    const std::vector<model_demand> busiest = detail::by_falling_rate(demands);
    const detail::capacity_curves curves(t, busiest, shapes, no_interference{});
    return detail::algorithm_1(t, busiest, shapes, beside, curves, detail::whole_gpus(shapes),
                               Sharing)
        .run();
  }
};

/// The paper's planner; its command-line name is "gpulet".
using gpulet_planner = algorithm_1_planner<time_sharing::yes>;
/// The paper's guided self-tuning; its command-line name is "self_tuning".
using self_tuning_planner = algorithm_1_planner<time_sharing::no>;

static_assert(partition_planner<gpulet_planner> && partition_planner<self_tuning_planner>);

} // namespace gsched

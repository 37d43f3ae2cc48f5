// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/gpu_shape.hpp>
#include <gsched/partition/interference.hpp>
#include <gsched/partition/latency_table.hpp>
#include <gsched/partition/model_demand.hpp>
#include <gsched/partition/plan.hpp>

#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace gsched {

/// When a planner puts a part of a demand on the SMs of a partition with other models, to run at
/// the same time.
enum class sm_sharing : std::uint8_t {
  never,
  last, ///< where it can add no partition
  first ///< before it adds a partition
};

/// Chooses partitions that serve demands: p.plan(table, demands, shapes, interference), with one
/// shape for each GPU. Returns an empty optional if it finds no plan. A model also keeps:
///  N1 sound        faults_of finds no fault in a plan, with the same interference.
///  N2 determinism  equal arguments give equal plans.
///  N3 zero rates   a demand of rate 0 gets no partition.
///  N4 infeasible   no plan, and no error, for rates that exceed the GPUs, and for no GPUs.
/// The caller owes: check(demands, table) passed, and no model is in two demands.
template <class P, class Interference = no_interference>
concept partition_planner =
    interference_model<Interference> &&
    requires(const P p, const latency_table& t, std::span<const model_demand> demands,
             std::span<const gpu_shape> shapes, const Interference& i) {
      { P::name } -> std::convertible_to<std::string_view>;
      { p.plan(t, demands, shapes, i) } -> std::same_as<std::optional<partition_plan>>;
    };

} // namespace gsched

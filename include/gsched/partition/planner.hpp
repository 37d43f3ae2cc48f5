// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/demand.hpp>
#include <gsched/partition/gpu_shape.hpp>
#include <gsched/partition/interference.hpp>
#include <gsched/partition/latency_table.hpp>
#include <gsched/partition/plan.hpp>

#include <concepts>
#include <optional>
#include <span>
#include <string_view>

namespace gsched {

/// Decides which partitions serve which demands; none if it finds no way. A model also keeps:
///  N1 sound        a plan has no fault that faults_of would find, with the same interference.
///  N2 determinism  the same plan for the same question.
///  N3 nothing      demands of rate 0 need nothing: they are in no partition.
///  N4 hopeless     no plan, and no error, for rates beyond all GPUs, and for no GPU.
/// The caller owes: check(demands, table) passed, and no model is in two demands.
template <class P, class Interference = no_interference>
concept partition_planner = interference_model<Interference> &&
    requires(const P p, const latency_table& t, std::span<const demand> demands,
             std::span<const gpu_shape> shapes, const Interference& i) {
  { P::name } -> std::convertible_to<std::string_view>;
  { p.plan(t, demands, shapes, i) } -> std::same_as<std::optional<partition_plan>>;
};

} // namespace gsched

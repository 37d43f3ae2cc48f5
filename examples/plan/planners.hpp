// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/demand.hpp>
#include <gsched/partition/gpu_shape.hpp>
#include <gsched/partition/latency_table.hpp>
#include <gsched/partition/plan.hpp>

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plan {

/// What a planner said of a scenario.
struct answer {
  std::optional<gsched::partition_plan> plan;
  std::chrono::nanoseconds took{};
  bool is_proven_impossible = false; ///< rather than that it found no way
  std::optional<double> bound{};     ///< no planner serves more than that many times these rates
};

[[nodiscard]] bool is_planner(std::string_view name);
/// Between commas.
[[nodiscard]] std::string all_planners();

/// Errors   std::runtime_error where the verifier finds a fault: one line.
[[nodiscard]] answer ask(std::string_view planner, const gsched::latency_table& t,
                         std::span<const gsched::demand> demands,
                         std::span<const gsched::gpu_shape> gpus);

/// The largest factor on all rates for which there is a plan, to a thousandth; 0: none.
[[nodiscard]] double max_scale(std::string_view planner, const gsched::latency_table& t,
                               std::span<const gsched::demand> demands,
                               std::span<const gsched::gpu_shape> gpus);

/// Of all partitions together.
[[nodiscard]] std::uint64_t sms_of(const gsched::partition_plan& p);
/// The largest predicted latency over its SLO.
[[nodiscard]] double worst_of(const gsched::partition_plan& p, const gsched::latency_table& t,
                              std::span<const gsched::demand> demands);

} // namespace plan

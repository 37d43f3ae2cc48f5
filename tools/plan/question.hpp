// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/contention_interference.hpp>
#include <gsched/partition/gpu_shape.hpp>
#include <gsched/partition/latency_table.hpp>
#include <gsched/partition/model_demand.hpp>

#include <optional>
#include <span>

namespace plan {

/// The input of a planner.
struct question {
  const gsched::latency_table& table;
  std::span<const gsched::model_demand> demands;
  std::span<const gsched::gpu_shape> gpus;
  std::optional<gsched::contention_interference> beside; ///< interference, if it is known
};

} // namespace plan

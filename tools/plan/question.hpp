// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/demand.hpp>
#include <gsched/partition/gpu_shape.hpp>
#include <gsched/partition/latency_table.hpp>
#include <gsched/partition/linear_interference.hpp>

#include <optional>
#include <span>

namespace plan {

/// What all planners are asked alike.
struct question {
  const gsched::latency_table& table;
  std::span<const gsched::demand> demands;
  std::span<const gsched::gpu_shape> gpus;
  std::optional<gsched::linear_interference> beside; ///< if it is known
};

} // namespace plan

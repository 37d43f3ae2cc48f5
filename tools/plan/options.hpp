// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/planners.hpp"
#include "plan/scenarios.hpp"

#include "common/cli/output_options.hpp"

#include <gsched/interference/coefficients.hpp>
#include <gsched/interference/solo_metrics.hpp>
#include <gsched/partition/gpu_shape.hpp>
#include <gsched/partition/latency_table.hpp>
#include <gsched/partition/shared_sm_slowdowns.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace plan {

/// The options, read and checked.
struct options : common::outputs {
  std::string table_name;
  std::optional<gsched::latency_table> table; ///< set
  std::string assumed;               ///< of the GPUs, one line; empty where their sizes are known
  std::string interference = "none"; ///< as typed
  std::optional<gsched::interference_coefficients> law; ///< none: interference is not considered
  gsched::solo_table solo;
  std::shared_ptr<const gsched::shared_sm_slowdowns> on_shared_sms; ///< where a planner shares SMs
  std::vector<gsched::app> apps; ///< of the scenarios: first the table's models
  std::vector<scenario> scenarios;
  std::vector<gsched::gpu_shape> gpus;
  std::vector<planner_choice> planners;
  bool max_scale = false;      ///< find the largest scale of the rates, and no plans
  bool uses_slo_factor = true; ///< as scenarios has it
  bool suggests = true; ///< of one scenario: the largest scale that has a plan, where there is none
  std::size_t threads = 1; ///< on which plans are made side by side, with the same results
};

/// The question of a scenario. It points into the options, which outlive it.
[[nodiscard]] question question_of(const options& o, std::size_t scenario);

/// Nothing when help was asked for, which is then printed on stdout.
/// Errors   gsched::error with one line.
[[nodiscard]] std::optional<options> parse_options(int argc, char** argv);

} // namespace plan

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/interference/corun_factors.hpp>
#include <gsched/interference/solo_metrics.hpp>
#include <gsched/partition/contention_interference.hpp>
#include <gsched/partition/interference.hpp>
#include <gsched/partition/latency_table.hpp>
#include <gsched/serving/active_plan.hpp>
#include <gsched/serving/learning/corun_learning.hpp>

#include <cstddef>
#include <functional>
#include <span>

namespace gsched {

/// What plans and the frontend assume.
struct plan_rules {
  planner_function planner{};
  interference_function expected{}; ///< how much batches slow each other
};

/// The metrics with their factors multiplied by those that were learned, by model of the table.
///
/// Cost     a copy of the metrics.
[[nodiscard]] inline solo_table with_factors(solo_table metrics, const latency_table& table,
                                             std::span<const corun_factors> learned) {
  for (std::size_t m = 0; m < learned.size(); ++m)
    metrics.multiply_factors(table.name(m), learned[m]);
  return metrics;
}

/// Lets a plan_loop learn how much batches slow each other, and plan with it, see corun_learning.
struct interference_learning {
  contention_interference law; ///< of the first plan; its table and metrics outlive the loop
  /// Makes the rules with_factors(metrics, table, learned). The planner may be called on another
  /// thread than this is.
  std::function<plan_rules(std::span<const corun_factors>)> rules;
  corun_learning_options how{};
  /// Factors are put to use with the next plan that the rates call for, or at once if a slow-down
  /// of the plan in service rises by more than this part, or falls by more than
  /// replanning_options::fall.
  double tolerance = 0.05;
};

} // namespace gsched

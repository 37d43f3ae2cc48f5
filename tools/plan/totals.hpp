// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/options.hpp"
#include "plan/planners.hpp"

#include <gsched/core/time.hpp>

#include <cstddef>
#include <optional>
#include <vector>

namespace plan {

/// By scenario, then planner, each in their order.
using answers = std::vector<answer>;

[[nodiscard]] const answer& answer_of(const options& o, const answers& all, std::size_t scenario,
                                      std::size_t planner);

/// The results of a planner over all scenarios.
struct total {
  std::size_t schedulable = 0;
  std::size_t sharing = 0;          ///< of those schedulable, with models on the same SMs
  std::size_t impossible = 0;       ///< proven impossible
  std::optional<std::size_t> holds; ///< of those schedulable, with interference, if it is known
  std::optional<std::size_t> holds_longer; ///< the same in cycles as long as batches take then
  std::optional<double> sms;               ///< mean of those that have a plan
  std::optional<double> sms_of_common;     ///< mean of those that all planners have a plan for
  double worst = 0;                        ///< latency over SLO, by the planner's prediction
  std::optional<double> worst_beside;      ///< the same with interference, if it is known
  std::vector<gsched::duration> took{};    ///< rising
};

[[nodiscard]] total total_of(const options& o, const answers& all, std::size_t planner);

/// For how many scenarios all planners have a plan.
[[nodiscard]] std::size_t common_of(const options& o, const answers& all);

} // namespace plan

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/question.hpp"

#include <gsched/partition/plan.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace plan {

/// A planner, with or without a prediction of interference. With it, it may share SMs.
struct planner_choice {
  std::string base;
  bool with_interference = false;
  bool shares_sms = false;
  [[nodiscard]] std::string name() const {
    return base + (shares_sms ? "+share" : with_interference ? "+int" : "");
  }
  bool operator==(const planner_choice&) const = default;
};

/// NAME, NAME+int, NAME+share, all, all+int or all+share, between commas.
/// Errors   gsched::error with one line.
[[nodiscard]] std::vector<planner_choice> read_planners(const std::string& words);

/// The result of a planner for a scenario.
struct answer {
  std::optional<gsched::partition_plan> plan;
  std::chrono::nanoseconds took{};
  bool is_proven_impossible = false; ///< not merely not found
  /// Without a plan or a proof, of a planner that looks for both: whether a limit ended its search.
  std::optional<bool> is_cut_short{};
  std::optional<double> bound{}; ///< no planner serves more than that many times these rates
  std::optional<bool> holds{};   ///< the plan meets all SLOs with interference, if that is known
  std::optional<bool> holds_longer{}; ///< the same, in cycles as long as the batches then take
  /// Without a plan: the largest scale of the rates that has one, and the time that the search for
  /// it took; unset where none was made.
  std::optional<double> suggested{};
  std::chrono::nanoseconds suggesting{};
};

/// Errors   std::runtime_error with one line where the verifier finds a fault in the plan.
[[nodiscard]] answer ask(const planner_choice& planner, const question& q);

/// The faults of a plan under interference, a line each; none if interference is not known.
[[nodiscard]] std::vector<std::string> faults_beside(const gsched::partition_plan& p,
                                                     const question& q);

using scale_progress = std::function<void(std::uint64_t done, std::uint64_t of)>;
/// The largest factor on all rates for which there is a plan, to a thousandth; 0: none. Looked for
/// from above in steps of 2%, far below the bound of 10%, as a planner may have none for some rates
/// below others. `step(done, of)` is called after each plan that was tried; `of` is an estimate.
[[nodiscard]] double max_scale(const planner_choice& planner, const question& q,
                               const scale_progress& step = {});

} // namespace plan

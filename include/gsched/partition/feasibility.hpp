// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/plan.hpp>

#include <cstdint>
#include <optional>
#include <utility>

namespace gsched {

/// The outcome of a search for a plan.
enum class feasibility : std::uint8_t {
  feasible,   ///< a plan was found
  infeasible, ///< proven: no plan exists
  unknown,    ///< neither a plan nor a proof (planning_result::is_cut_short)
};

/// A planner's answer with what the search proved.
struct planning_result {
  feasibility status = feasibility::unknown;
  std::optional<partition_plan> plan{}; ///< set if feasible
  /// If unknown: a limit ended the search for a proof. Otherwise that search ended with demands
  /// that GPUs serve without the interference of any plan, so it proves nothing.
  bool is_cut_short = false;
  double bound = 0; ///< upper bound: no plan serves the demands' rates times more than this

  /// Has this plan from now on, if it is one.
  void take(std::optional<partition_plan> found) {
    if (!found) return;
    plan = std::move(found);
    status = feasibility::feasible;
  }
};

/// Limits of a search for a plan, counted in steps: the same on every machine.
struct search_budget {
  std::uint64_t steps = 0;    ///< of one branch-and-bound search
  std::uint32_t rounds = 1;   ///< searches with interference; each updates the planned slow-downs
  std::uint32_t rejected = 1; ///< a round: candidate plans that interference makes infeasible
};

} // namespace gsched

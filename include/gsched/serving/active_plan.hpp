// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/model_demand.hpp>
#include <gsched/partition/plan.hpp>
#include <gsched/serving/replanning.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace gsched {

/// Any planner: returns a plan for demands, or nothing.
using planner_function =
    std::function<std::optional<partition_plan>(std::span<const model_demand>)>;

/// The plan in service, and the next plan: it is chosen while the first is in service, and becomes
/// active when its partitions exist.
///
/// Threads  `decide` on any one thread at a time, all else on the owner's thread. The caller
///          synchronises `decide` with the calls that read its result.
class active_plan {
public:
  /// The planner outlives this.
  active_plan(const planner_function& planner, replanning_options o)
      : planner_(&planner), replanning_(o) {}

  /// Chooses a plan for measured rates; null: the current plan stays.
  ///
  /// Errors   those of the planner.
  const partition_plan* decide(std::vector<model_demand> measured) {
    bool asked = false;
    std::optional<scaled_plan> found = replanning_.replan(std::move(measured), [&](auto d) {
      asked = true;
      return (*planner_)(d);
    });
    none_better_ = asked && !found;
    next_ = std::move(found);
    return next_ && next_->plan != plan_ ? &next_->plan : nullptr;
  }
  /// Makes the chosen plan the active one. Returns true if it differs from the former plan.
  [[nodiscard]] bool advance() {
    if (!next_) return false;
    factor_ = next_->factor;
    const bool is_another = next_->plan != plan_;
    plan_ = std::move(next_->plan);
    next_.reset();
    sms_ = 0;
    for (const gpulet& g : plan_.gpulets) sms_ += g.sms.count();
    return is_another;
  }

  [[nodiscard]] const partition_plan& plan() const noexcept { return plan_; }
  /// The active plan serves this many times the rates that it was made for.
  [[nodiscard]] double factor() const noexcept { return factor_; }
  /// The SMs of all its partitions.
  [[nodiscard]] std::uint32_t sms() const noexcept { return sms_; }
  /// Whether the last decision called the planner and found no plan that serves more.
  [[nodiscard]] bool is_none_better() const noexcept { return none_better_; }

private:
  const planner_function* planner_;
  replanning replanning_;
  std::optional<scaled_plan> next_;
  bool none_better_ = false;
  partition_plan plan_;
  double factor_ = 0;
  std::uint32_t sms_ = 0;
};

} // namespace gsched

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/demand.hpp>
#include <gsched/partition/plan.hpp>
#include <gsched/serving/replanning.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace gsched {

/// A planner, any of them: a plan for demands, or none.
using planner_function = std::function<std::optional<partition_plan>(std::span<const demand>)>;

/// The plan that is served by, and the one that follows: decided upon while the first goes on, and
/// in force when its partitions are there.
///
/// Threads  decide on any one thread at a time, the rest by the owner; between decide and what
///          reads its answer the caller synchronises.
class plan_in_force {
public:
  /// The planner outlives this.
  plan_in_force(const planner_function& planner, replanning_options o)
      : planner_(&planner), replanning_(o) {}

  /// For rates as measured; null: the plan before goes on. Errors   those of the planner.
  const partition_plan* decide(std::vector<demand> measured) {
    bool asked = false;
    std::optional<scaled_plan> found = replanning_.replan(std::move(measured), [&](auto d) {
      asked = true;
      return (*planner_)(d);
    });
    none_better_ = asked && !found;
    next_ = std::move(found);
    return next_ && next_->plan != plan_ ? &next_->plan : nullptr;
  }
  /// What was decided holds from now on. True: with another plan.
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
  /// Times the rates that it was made for, it serves.
  [[nodiscard]] double factor() const noexcept { return factor_; }
  /// Of all its partitions.
  [[nodiscard]] std::uint32_t sms() const noexcept { return sms_; }
  /// The planner was asked last, and had none that serves more.
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

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/partition/latency_table.hpp>
#include <gsched/partition/model_demand.hpp>
#include <gsched/partition/plan.hpp>
#include <gsched/serving/learning/time_corrections.hpp>
#include <gsched/serving/replanning.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace gsched {

/// Any planner: returns a plan for demands with the latencies of a table, or nothing.
using planner_function = std::function<std::optional<partition_plan>(
    const latency_table&, std::span<const model_demand>)>;

/// Changes a plan that was chosen, which serves the same afterwards; empty: nothing.
using plan_finish = std::function<partition_plan(
    const partition_plan&, std::span<const model_demand>, const latency_table&)>;

/// The plan in service, and the next plan: it is chosen while the first is in service, and becomes
/// active when its partitions exist.
///
/// Threads  `decide` on any one thread at a time, all else on the owner's thread. The caller
///          synchronises `decide` with the calls that read its result.
class active_plan {
public:
  /// Table and planner outlive this.
  active_plan(const latency_table& table, const planner_function& planner, replanning_options o,
              plan_finish finish = {})
      : table_(&table), planner_(&planner), finish_(std::move(finish)), replanning_(o) {}

  /// Plans with another planner from now on, for the same rates too. It outlives this.
  void use(const planner_function& planner, plan_finish finish) {
    planner_ = &planner;
    finish_ = std::move(finish);
    replanning_.forget();
  }
  /// Whether rates and what was learned are near those of the plan, see replanning.
  [[nodiscard]] bool is_near(std::span<const model_demand> measured,
                             const learned_factors& learned) const {
    return replanning_.is_near(measured, learned);
  }
  /// Chooses a plan for measured rates and what was learned; null: the current plan stays.
  ///
  /// Errors   those of the planner.
  const partition_plan* decide(std::span<const model_demand> measured,
                               const learned_factors& learned) {
    bool asked = false;
    std::optional<latency_table> corrected;
    std::vector<double> corrected_by;
    std::optional<scaled_plan> found =
        replanning_.replan(measured, learned, [&](auto demands, auto by) {
          asked = true;
          if (!corrected ||
              !std::equal(by.begin(), by.end(), corrected_by.begin(), corrected_by.end())) {
            corrected_by.assign(by.begin(), by.end());
            corrected = with_corrections(*table_, by);
          }
          return (*planner_)(*corrected, demands);
        });
    none_better_ = asked && !found;
    next_ = std::move(found);
    if (next_ && finish_) next_->plan = finish_(next_->plan, measured, *corrected);
    return next_ && next_->plan != plan_ ? &next_->plan : nullptr;
  }
  /// Makes the chosen plan the active one. Returns true if it differs from the former plan.
  [[nodiscard]] bool advance() {
    if (!next_) return false;
    factor_ = next_->factor;
    const bool is_another = next_->plan != plan_;
    plan_ = std::move(next_->plan);
    next_.reset();
    sms_ = sms_of(plan_);
    return is_another;
  }

  /// Forgets the chosen plan, whose partitions could not be made; the next decision makes another
  /// one.
  void give_up() {
    next_.reset();
    replanning_.forget();
  }

  [[nodiscard]] const partition_plan& plan() const noexcept { return plan_; }
  /// The active plan serves this many times the rates that it was made for.
  [[nodiscard]] double factor() const noexcept { return factor_; }
  /// The SMs of all its partitions.
  [[nodiscard]] std::uint32_t sms() const noexcept { return sms_; }
  /// Whether the last decision called the planner and found no plan that serves more.
  [[nodiscard]] bool is_none_better() const noexcept { return none_better_; }

private:
  const latency_table* table_;
  const planner_function* planner_;
  plan_finish finish_;
  replanning replanning_;
  std::optional<scaled_plan> next_;
  bool none_better_ = false;
  partition_plan plan_;
  double factor_ = 0;
  std::uint32_t sms_ = 0;
};

} // namespace gsched

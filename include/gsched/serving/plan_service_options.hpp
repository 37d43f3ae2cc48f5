// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/partition/model_demand.hpp>
#include <gsched/serving/frontend.hpp>
#include <gsched/serving/learning/interference_learning.hpp>
#include <gsched/serving/learning/time_corrections.hpp>
#include <gsched/serving/learning/violation_margins.hpp>
#include <gsched/serving/replanning.hpp>
#include <gsched/serving/service_outcome.hpp>
#include <gsched/workload/app.hpp>
#include <gsched/workload/rate_curve.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace gsched {

/// An app with its expected and its actual request rate.
struct offered_app {
  app definition{};
  rate_curve expected{}; ///< its rate at the start is what the first plan serves
  rate_curve actual{};
  std::uint64_t seed = 0;
};

/// The demands expected at the start, for each model that an app requests.
[[nodiscard]] inline std::vector<model_demand> offered_demands(std::span<const offered_app> apps,
                                                               std::span<const duration> slos) {
  std::vector<model_demand> all;
  for (std::size_t m = 0; m < slos.size(); ++m) {
    model_demand d{m, 0, slos[m]};
    bool is_offered = false;
    for (const offered_app& a : apps)
      for (const app_stage& s : a.definition.stages)
        if (s.model == m) {
          is_offered = true;
          if (!a.expected.empty()) d.rate += a.expected.front().rate * s.requests;
        }
    if (is_offered) all.push_back(d);
  }
  return all;
}

/// Options of plan_service.
struct plan_service_options {
  duration length = std::chrono::seconds{60}; ///< of arrivals; the run ends when all are answered
  duration period = std::chrono::seconds{20}; ///< between two decisions on a plan
  bool replans = true;                        ///< false: the first plan stays
  bool fills =
      true; ///< partitions use what a plan leaves idle, see with_idle_gpus, with_idle_groups
  duration switch_cost = std::chrono::microseconds{100}; ///< until a new partition starts
  replanning_options replanning{};
  correction_options corrections{};                ///< of batch times
  std::optional<interference_learning> learning{}; ///< none: interference stays as expected
  margin_options margins{}; ///< against violations that neither rates nor times explain
  frontend_options frontend{};
  duration stall{}; ///< a batch that takes longer than expected by more is recorded; 0: none is
  /// Called when the first plan's partitions exist, before time zero, which is its return; may be
  /// empty.
  std::function<void()> before_start{};
  /// Called at the end of each batch, on the thread that serves; may be empty.
  std::function<void(const ended_batch&)> on_batch{};
  /// Called every few thousand events with the time since the start; may be empty.
  std::function<void(duration)> on_progress{};
};

} // namespace gsched

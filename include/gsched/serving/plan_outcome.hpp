// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/serving/frontend.hpp>
#include <gsched/trace/histogram.hpp>

#include <cstdint>
#include <vector>

namespace gsched::sim {

/// Of an app, or of a model by itself.
struct app_outcome {
  std::uint64_t arrived = 0;
  std::uint64_t in_time = 0; ///< all answers within its SLO
  std::uint64_t late = 0;
  std::uint64_t dropped = 0;  ///< an answer is missing
  trace::histogram latency{}; ///< of those that have all answers

  [[nodiscard]] double violations() const noexcept {
    return arrived > 0 ? static_cast<double>(late + dropped) / static_cast<double>(arrived) : 0;
  }
};

struct model_outcome {
  request_counts counts{};
  trace::histogram latency{};
  std::uint64_t batches = 0;
  duration expected{};     ///< of all its batches, by the plans
  duration took{};         ///< what they took
  trace::histogram over{}; ///< how much longer than expected a batch took; 0 for those that didn't
};

/// Of an app, within a period.
struct app_period {
  std::uint64_t arrived = 0;
  std::uint64_t ended = 0;    ///< answered or dropped, whenever they arrived
  std::uint64_t violated = 0; ///< of those
};

/// From one look at the rates to the next.
struct period_outcome {
  time_point begin{};
  std::vector<double> measured{};    ///< by model, at its begin; 0 before anything came
  std::vector<std::uint64_t> came{}; ///< by model, requests
  std::vector<app_period> apps{};    ///< by app
  std::uint64_t ended = 0;           ///< requests of apps that were answered or dropped
  std::uint64_t violated = 0;        ///< of those
  double factor = 0;     ///< times the rates that the plan in force was made for, it serves
  std::uint32_t sms = 0; ///< of all partitions
  bool switched = false; ///< to another plan, at its begin
  bool no_plan = false;  ///< the planner was asked and had none that is better
};

struct plan_outcome {
  std::vector<app_outcome> apps{};
  std::vector<model_outcome> models{}; ///< of the table
  std::vector<period_outcome> periods{};
  std::uint64_t batches = 0;
  std::uint64_t switches = 0;
  std::vector<time_point> switched_at{}; ///< those
  time_point end{};                      ///< of the last batch

  [[nodiscard]] app_outcome all() const {
    app_outcome sum;
    for (const app_outcome& a : apps) {
      sum.arrived += a.arrived;
      sum.in_time += a.in_time;
      sum.late += a.late;
      sum.dropped += a.dropped;
      sum.latency.merge(a.latency);
    }
    return sum;
  }
};

} // namespace gsched::sim

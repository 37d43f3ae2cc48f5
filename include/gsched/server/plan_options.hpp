// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/partition/gpu_shape.hpp>
#include <gsched/partition/interference.hpp>
#include <gsched/partition/latency_table.hpp>
#include <gsched/partition/plan.hpp>
#include <gsched/server/planned_model.hpp>
#include <gsched/serving/active_plan.hpp>
#include <gsched/serving/plan_service_options.hpp>
#include <gsched/serving/service_outcome.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace gsched {

/// A model, and what is asked of its service.
struct planned_service {
  std::unique_ptr<planned_model> model; ///< of the table's name
  duration slo{};                       ///< longest latency of a request
  double rate = 0;                      ///< requests a second expected at the start
};

/// What a plan_server serves, and on what.
struct plan_offer {
  latency_table table; ///< of the batches that exist, of these models only
  std::vector<gpu_shape> shapes;
  std::vector<planned_service> models; ///< by model of the table
  planner_function planner{};          ///< unset: elastic_planner
  interference_function expected{};    ///< how much batches are expected to slow each other
};

/// How a plan_server waits and gives up.
struct plan_server_options {
  plan_service_options plan{}; ///< `length` and `on_progress` do not count
  /// The server's thread polls for so long after its last work, then it sleeps.
  duration spin = std::chrono::microseconds{50};
  /// As server_options::longest_hang.
  duration longest_hang = std::chrono::seconds{23};
};

/// What a plan_server has done since it was opened.
struct plan_report {
  std::vector<model_outcome> models{};         ///< by model
  std::vector<double> rates{};                 ///< by model: as measured, requests a second
  std::vector<learned_interference> learned{}; ///< by model; empty: interference stays as expected
  std::vector<learned_times> times{};          ///< by model
  std::uint32_t sms = 0;                       ///< of all GPUs
  partition_plan plan{};
  double factor = 0; ///< the plan serves this many times the rates that it was made for
  std::uint64_t batches = 0;
  std::uint64_t switches = 0;
  replan_reason reason = replan_reason::none; ///< of the last decision for another plan
  std::uint64_t failed_plans = 0;             ///< that were chosen, but not made
  std::string last_failure{};                 ///< of these: why, in one line
};

} // namespace gsched

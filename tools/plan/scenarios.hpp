// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/input/table_options.hpp"

#include <gsched/core/quantity.hpp>
#include <gsched/partition/latency_table.hpp>
#include <gsched/partition/model_demand.hpp>
#include <gsched/workload/app.hpp>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace plan {

/// Rates to plan for.
struct scenario {
  std::string name;                                  ///< from a file of rates; else empty
  std::vector<std::pair<std::size_t, double>> rates; ///< of an app, in requests a second
  std::vector<gsched::model_demand> demands;         ///< of models, that follow from the rates
};

struct scenarios {
  std::vector<gsched::app> apps; ///< first the models of the table
  std::vector<scenario> all;
  bool uses_slo_factor = true; ///< false: --slo names all apps that have rates
};

/// The options that say which rates to plan for, as typed.
struct scenario_texts : common::partition_texts {
  std::string file, scenarios, levels = "0,200,400,600", models;
};

/// SLOs by factor are for GPUs with that many SMs.
/// Errors   gsched::error with one line.
[[nodiscard]] scenarios read_scenarios(const scenario_texts& raw, const gsched::latency_table& t,
                                       gsched::sm_count all_sms);

} // namespace plan

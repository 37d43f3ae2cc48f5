// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>
#include <gsched/partition/demand.hpp>
#include <gsched/partition/latency_table.hpp>
#include <gsched/workload/app.hpp>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace plan {

/// Rates to plan for.
struct scenario {
  std::string name;                                  ///< from a file of rates; else empty
  std::vector<std::pair<std::size_t, double>> asked; ///< which app, requests a second
  std::vector<gsched::demand> demands;               ///< what that asks of models
};

struct scenarios {
  std::vector<gsched::sim::app> apps; ///< what can be asked for: first the table's models
  std::vector<scenario> all;
  bool uses_slo_factor = true; ///< false: --slo names all that is asked for
};

/// What the command line says of them, as words.
struct scenario_words {
  std::string rates, apps, file, scenarios, levels = "0,200,400,600", models, scale = "1", slo,
                                            slo_factor = "2";
};

/// SLOs by factor are of GPUs with that many SMs.
/// Errors   gsched::error with one line.
[[nodiscard]] scenarios read_scenarios(const scenario_words& w, const gsched::latency_table& t,
                                       gsched::sm_count all_sms);

} // namespace plan

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/partition/demand.hpp>
#include <gsched/partition/latency_table.hpp>

#include <string>
#include <vector>

namespace plan {

/// Rates to plan for.
struct scenario {
  std::string name; ///< from a file of rates; else empty
  std::vector<gsched::demand> demands;
};

/// What the command line says of them, as words.
struct scenario_words {
  std::string rates, file, scenarios, levels = "0,200,400,600", models, scale = "1";
};

/// `slos` by model of the table.
/// Errors   gsched::error with one line.
[[nodiscard]] std::vector<scenario> read_scenarios(const scenario_words& w,
                                                   const gsched::latency_table& t,
                                                   const std::vector<gsched::duration>& slos);

} // namespace plan

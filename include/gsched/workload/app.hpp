// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>
#include <gsched/core/time.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace gsched {

/// One stage of an app: requests of one model, sent at once when every stage in `after` has all of
/// its answers.
struct app_stage {
  std::size_t model = 0; ///< index into the latency table
  std::uint32_t requests = 1;
  std::vector<std::size_t> after{}; ///< indices of earlier stages
};

/// An application: an acyclic graph of model requests with one SLO. A single model is an app of one
/// stage.
struct app {
  static constexpr std::size_t most_stages = 16;

  std::string name{};
  duration slo{}; ///< from the app request to its last answer
  std::vector<app_stage> stages{};
};

/// An app of one stage with one request.
[[nodiscard]] inline app app_of_model(std::string name, std::size_t model, duration slo) {
  return {std::move(name), slo, {{model, 1, {}}}};
}

/// Checks an app's graph.
///
/// Errors   bad_option, one line that names the app: no stage or more than 16; a stage of 0 or more
///          than 1000 requests; a stage that follows itself or a later stage.
inline void check(const app& a) {
  const auto refuse = [&](const std::string& what) {
    throw error(errc::bad_option, "app " + a.name + ": " + what);
  };
  if (a.stages.empty() || a.stages.size() > app::most_stages)
    refuse(std::to_string(a.stages.size()) + " stages, expected 1 to 16");
  for (std::size_t i = 0; i < a.stages.size(); ++i) {
    if (a.stages[i].requests == 0 || a.stages[i].requests > 1000)
      refuse("stage " + std::to_string(i) + " of " + std::to_string(a.stages[i].requests) +
             " requests, expected 1 to 1000");
    for (const std::size_t before : a.stages[i].after)
      if (before >= i) refuse("stage " + std::to_string(i) + " after one that is not before it");
  }
}

} // namespace gsched

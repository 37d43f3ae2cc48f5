// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/partition/demand.hpp>
#include <gsched/serving/frontend.hpp>
#include <gsched/serving/replanning.hpp>
#include <gsched/workload/app.hpp>
#include <gsched/workload/rate_curve.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace gsched::sim {

/// An app, what is expected of it, and what comes.
struct offered_app {
  app what{};
  rate_curve expected{}; ///< the first plan is for its rate at the beginning
  rate_curve comes{};
  std::uint64_t seed = 0;
};

/// What is expected at the beginning of each model that an app asks for.
[[nodiscard]] inline std::vector<demand> offered_demands(std::span<const offered_app> apps,
                                                         std::span<const duration> slos) {
  std::vector<demand> all;
  for (std::size_t m = 0; m < slos.size(); ++m) {
    demand d{m, 0, slos[m]};
    bool is_offered = false;
    for (const offered_app& a : apps)
      for (const app_stage& s : a.what.stages)
        if (s.model == m) {
          is_offered = true;
          if (!a.expected.empty()) d.rate += a.expected.front().rate * s.requests;
        }
    if (is_offered) all.push_back(d);
  }
  return all;
}

struct plan_service_options {
  duration length = std::chrono::seconds{60}; ///< requests come for so long; then all are served
  duration period = std::chrono::seconds{20}; ///< from one look at the rates to the next
  bool replans = true;                        ///< else the first plan stays
  duration switch_cost = std::chrono::microseconds{100}; ///< until a new partition begins
  replanning_options replanning{};
  frontend_options frontend{};
  /// Called now and then with the time that has passed since the beginning; may be empty.
  std::function<void(duration)> told{};
};

} // namespace gsched::sim

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/partition/frontend.hpp>
#include <gsched/partition/replanning.hpp>
#include <gsched/sim/app.hpp>
#include <gsched/sim/rate_curve.hpp>

#include <chrono>
#include <cstdint>

namespace gsched::sim {

/// An app, what is expected of it, and what comes.
struct offered_app {
  app what{};
  rate_curve expected{}; ///< the first plan is for its rate at the beginning
  rate_curve comes{};
  std::uint64_t seed = 0;
};

struct plan_service_options {
  duration length = std::chrono::seconds{60}; ///< requests come for so long; then all are served
  duration period = std::chrono::seconds{20}; ///< from one look at the rates to the next
  bool replans = true;                        ///< else the first plan stays
  duration switch_cost = std::chrono::microseconds{100}; ///< until a new partition begins
  replanning_options replanning{};
  frontend_options frontend{};
};

} // namespace gsched::sim

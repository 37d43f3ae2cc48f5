// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "serve_partitions/options.hpp"

#include <gsched/serving/active_plan.hpp>
#include <gsched/serving/service_outcome.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace serve_partitions {

/// Statistics of the partitions made on real GPUs.
struct partition_making {
  std::string gpu;
  std::uint64_t made = 0, kept = 0, let_go = 0;
  gsched::duration deciding{}, making{}, longest{}; ///< making: all, and the longest for one plan
  gsched::duration beginning{}, longest_begin{}, longest_pause{}; ///< of the thread that serves
};

struct served {
  gsched::service_outcome outcome;
  std::optional<partition_making> making; ///< on real GPUs
};

/// Errors   std::runtime_error where the verifier finds a fault in a plan: one line; gsched::error
///          for GPUs that are not there, not as the options say, or that fail.
[[nodiscard]] served run(const options& o);

/// Scales all rates up to the largest that the planner has a plan for, with headroom and clusters,
/// to a hundredth; returns the factor.
/// Errors   bad_option where it has none at all.
double scale_to_most(options& o);

/// The planner and the interference function of the options.
[[nodiscard]] gsched::planner_function planner_of(const options& o);
[[nodiscard]] gsched::interference_function expected_of(const options& o);
/// How a service is to run: o.service, and what it learns.
[[nodiscard]] gsched::plan_service_options service_of(const options& o);
/// What predictions for a plan are extrapolated in, as contention_interference::beyond_fit; empty
/// where nothing is predicted.
[[nodiscard]] std::string beyond_fit(const options& o, const gsched::partition_plan& plan);
/// In builds with CUDA alone.
[[nodiscard]] served run_on_gpus(const options& o);

} // namespace serve_partitions

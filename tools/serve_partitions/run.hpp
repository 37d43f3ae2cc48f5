// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "serve_partitions/options.hpp"

#include <gsched/serving/plan_in_force.hpp>
#include <gsched/serving/plan_outcome.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace serve_partitions {

/// How partitions of real GPUs came to be.
struct partition_making {
  std::string gpu;
  std::uint64_t made = 0, kept = 0, let_go = 0;
  gsched::duration deciding{}, making{}, longest{}; ///< the last two: partitions, of one plan
  gsched::duration beginning{}, longest_begin{}, longest_pause{}; ///< of the thread that serves
};

struct served {
  gsched::sim::plan_outcome outcome;
  std::optional<partition_making> making; ///< on real GPUs
};

/// Errors   std::runtime_error where the verifier finds a fault in a plan: one line; gsched::error
///          for GPUs that are not there, not as the options say, or that fail.
[[nodiscard]] served run(const options& o);

/// Makes all rates so many times as large that the planner has just a plan for them, with headroom
/// and clusters, to a hundredth; that factor. Errors   bad_option where it has none at all.
double scale_to_most(options& o);

/// For run.
[[nodiscard]] gsched::planner_function planner_of(const options& o);
[[nodiscard]] gsched::interference_function expected_of(const options& o);
/// In builds with CUDA alone.
[[nodiscard]] served run_on_gpus(const options& o);

} // namespace serve_partitions

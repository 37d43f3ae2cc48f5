// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "serve_mix/options.hpp"
#include "serve_mix/platform.hpp"
#include "serve_mix/report.hpp"

#include <gsched/job/profile.hpp>

#include <span>
#include <string>
#include <vector>

namespace serve_mix {

/// One run of a policy.
struct planned_run {
  std::string policy;
  bool apart = false; ///< with the rule of --slow-down-limit
};
/// Each policy, and with --slow-down-limit those that schedule a second time.
[[nodiscard]] std::vector<planned_run> runs_of(const options& from);

/// Measures each model alone on the platform, as one graph with its copies, and derives the rate.
[[nodiscard]] workload_facts facts_of(platform& on, const options& from,
                                      std::span<const gsched::profile> models);

/// Serves the workload under each policy, each on a device of its own, and records the runs in the
/// timeline if there is one. Without one, and where the platform allows it, policies run on
/// `from.threads` threads; results do not depend on that, except for wall_s.
/// Errors   gsched::error: a malformed line of a trace file among them. Of several, the first by
///          the order of the policies.
[[nodiscard]] std::vector<run_result> run_policies(platform& on, const options& from,
                                                   const workload_facts& facts,
                                                   std::span<const gsched::profile> models,
                                                   timeline* record);

} // namespace serve_mix

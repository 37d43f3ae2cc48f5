// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "serve_mix/options.hpp"
#include "serve_mix/report.hpp"
#include "serve_mix/timeline.hpp"

#include <gsched/job/profile.hpp>
#include <gsched/sim/preset.hpp>

#include <span>
#include <string>

namespace serve_mix {

/// The device that the options name, with their hardware queues.
[[nodiscard]] gsched::sim::preset device_of(const options& from);

/// Measures each model alone on the device, as one graph with its copies, and works out the rate.
[[nodiscard]] workload_facts facts_of(const options& from, std::span<const gsched::profile> models);

/// Serves the workload once under one policy, on a device of its own. What happens goes to the
/// timeline if there is one.
/// Errors   gsched::error: a malformed line of a trace file among them.
[[nodiscard]] run_result run_policy(const std::string& policy, const options& from,
                                    const workload_facts& facts,
                                    std::span<const gsched::profile> models, timeline* record);

} // namespace serve_mix

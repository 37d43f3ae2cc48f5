// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "serve_mix/options.hpp"
#include "serve_mix/platform.hpp"
#include "serve_mix/report.hpp"

#include <gsched/job/profile.hpp>

#include <span>
#include <string>

namespace serve_mix {

/// Measures each model alone on the platform, as one graph with its copies, and works out the rate.
[[nodiscard]] workload_facts facts_of(platform& on, const options& from,
                                      std::span<const gsched::profile> models);

/// Serves the workload once under one policy, on a device of its own. What happens goes to the
/// timeline if there is one.
/// Errors   gsched::error: a malformed line of a trace file among them.
[[nodiscard]] run_result run_policy(platform& on, const std::string& policy, const options& from,
                                    const workload_facts& facts,
                                    std::span<const gsched::profile> models, timeline* record);

} // namespace serve_mix

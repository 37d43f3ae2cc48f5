// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "serve_mix/platform.hpp"
#include "serve_mix/report.hpp"

#include <gsched/job/profile.hpp>

#include <span>

namespace serve_mix {

/// Sets the slow-downs of the mix's models beside each other, and the rule that keeps apart those
/// beyond from.slow_down_limit. The slow-downs are those of --interference, or are measured on the
/// platform: both models in a closed loop of one request each, submitted as they arrive, and the
/// median latency of each over its latency alone (facts.solo).
///
/// Errors   bad_option for a file without a pair of the mix; those of load_corun_pairs.
void find_slowdowns(platform& on, const options& from, std::span<const gsched::profile> models,
                    workload_facts& facts);

} // namespace serve_mix

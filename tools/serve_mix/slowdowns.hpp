// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "serve_mix/platform.hpp"
#include "serve_mix/report.hpp"

#include <gsched/job/profile.hpp>

#include <span>

namespace serve_mix {

/// Sets the slow-downs of the mix's models beside each other, from each source of --slow-downs, and
/// the rule that keeps apart those beyond from.slow_down_limit by the first of them:
///  - predicted: gsched::pair_slowdowns, from the counters of the models' kernels;
///  - measured: both models on the platform in a closed loop of one request each, submitted as they
///    arrive, and the median latency of each over its latency alone (facts.solo);
///  - a file of measured pairs.
///
/// Errors   bad_option, one line: a model whose kernels have no counters, for a prediction;
///          profiles and a law of different GPUs; a file without a pair of the mix. Those of
///          load_corun_pairs and load_coefficients.
void find_slowdowns(platform& on, const options& from, std::span<const gsched::profile> models,
                    workload_facts& facts);

} // namespace serve_mix

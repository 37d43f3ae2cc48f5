// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "realtime/options.hpp"
#include "realtime/platform.hpp"
#include "realtime/result.hpp"

#include "common/timeline.hpp"

#include <gsched/job/profile.hpp>

#include <span>
#include <vector>

namespace realtime {

/// Says on stderr, in one line, which models have no counters to predict slow-downs from. Refuses
/// a workload in which no pair of a real-time and a best-effort model has.
/// Errors   bad_option; those of common::check_machines.
void check_counters(const options& from, std::span<const gsched::profile> models);

/// Measures each client's model alone on the platform.
[[nodiscard]] workload_facts facts_of(platform& on, const options& from,
                                      std::span<const gsched::profile> models);

/// Serves the workload in each mode, each on a device of its own, and records the runs in the
/// timeline if there is one. Without one, and where the platform allows it, modes run on
/// `from.threads` threads; results do not depend on that, except for wall_s.
/// Errors   gsched::error: a malformed line of a trace file among them.
[[nodiscard]] std::vector<run_result> run_modes(platform& on, const options& from,
                                                const workload_facts& facts,
                                                std::span<const gsched::profile> models,
                                                common::timeline* record);

} // namespace realtime

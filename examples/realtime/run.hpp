// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "realtime/options.hpp"
#include "realtime/platform.hpp"
#include "realtime/result.hpp"

#include "parts/timeline.hpp"

#include <gsched/job/profile.hpp>

#include <span>

namespace realtime {

/// Measures each client's model alone on the platform.
[[nodiscard]] workload_facts facts_of(platform& on, const options& from,
                                      std::span<const gsched::profile> models);

/// Serves the workload once, on a device of its own. What happens goes to the timeline if there is
/// one.
/// Errors   gsched::error: a malformed line of a trace file among them.
[[nodiscard]] run_result run_mode(platform& on, mode m, const options& from,
                                  const workload_facts& facts,
                                  std::span<const gsched::profile> models, parts::timeline* record);

} // namespace realtime

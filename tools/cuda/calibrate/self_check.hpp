// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "calibrate/samples.hpp"

#include <gsched/sim/preset.hpp>

namespace calibrate {

/// The samples that the experiments would produce on a simulated GPU. conclude() must recover from
/// them the preset's costs of submission, start, ends and gaps.
[[nodiscard]] samples measure_simulated(const gsched::sim::preset& p);

} // namespace calibrate

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "calibrate/samples.hpp"

#include <gsched/sim/preset.hpp>

namespace calibrate {

/// What the experiments would measure on a simulated GPU. conclude() must find in it what the
/// preset says: of submission, start, ends and gaps.
[[nodiscard]] samples measure_simulated(const gsched::sim::preset& p);

} // namespace calibrate

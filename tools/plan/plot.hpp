// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/options.hpp"
#include "plan/totals.hpp"

namespace plan {

/// One scenario: each planner's GPUs and what they are cut into. Several: how many of them each
/// planner can serve, and on how many SMs.
/// Errors   gsched::error (io) if gnuplot fails.
void draw_plot(const options& o, const answers& all);

} // namespace plan

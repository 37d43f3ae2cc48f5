// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "padding/run.hpp"

#include "experiment.hpp"

#include <gsched/cuda/gpu.hpp>

namespace padding {

/// The kernels of a profile padded with another's, both by stand-ins, as one graph.
void measure_programs(const gsched::cuda::gpu& on, const run_options& how,
                      experiment::watchdog& dog, results& out);

} // namespace padding

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "measure/options.hpp"

#include <gsched/gsched_measure.h>

#include <span>

namespace measure {

/// Checks what `run` would before it makes graphs: the GPU, whether it is idle, and whether the
/// folder is of such a GPU. Changes nothing, and returns 0.
/// Errors   gsched::error in one line.
[[nodiscard]] int check_machine(const options& o);

/// Measures, writes the tables, and prints what was measured. Returns the exit code: 0, or
/// incomplete_status where not all that was asked for is there, which one line on stderr counts.
/// Errors   gsched::error in one line.
[[nodiscard]] int run(const options& o, std::span<const gsched_measure_graph> captured);

} // namespace measure

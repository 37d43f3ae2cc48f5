// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "serve_partitions/options.hpp"

#include <gsched/sim/plan_outcome.hpp>

namespace serve_partitions {

/// Errors   std::runtime_error where the verifier finds a fault in a plan: one line.
[[nodiscard]] gsched::sim::plan_outcome run(const options& o);

} // namespace serve_partitions

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "serve_partitions/options.hpp"

#include <gsched/serving/service_outcome.hpp>

#include <filesystem>

namespace serve_partitions {

/// Over time: what each app or model was asked for and what came in time, period by period; the SMs
/// of the plan; the violations; and when one plan followed another.
/// Errors   gsched::error (io) if gnuplot fails.
void draw_plot(const options& o, const gsched::service_outcome& r,
               const std::filesystem::path& picture);

} // namespace serve_partitions

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "realtime/options.hpp"
#include "realtime/result.hpp"

#include <iosfwd>
#include <span>

namespace realtime {

/// The script, with its data inline, for a picture of real-time latency and of throughput by mode:
/// the type follows the path's extension (.svg, .png, .pdf).
void write_gnuplot(std::ostream& out, const options& from, const workload_facts& facts,
                   std::span<const run_result> runs);

/// Draws options::plot through gnuplot.
/// Errors   gsched::error (io) if gnuplot fails.
void draw_plot(const options& from, const workload_facts& facts, std::span<const run_result> runs);

} // namespace realtime

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "serve_mix/options.hpp"
#include "serve_mix/report.hpp"

#include <iosfwd>
#include <span>

namespace serve_mix {

/// The script, with its data inline, for a picture of latency by policy and model: the type follows
/// the path's extension (.svg, .png, .pdf).
void write_gnuplot(std::ostream& out, const options& from, const workload_facts& facts,
                   std::span<const run_result> runs);

/// Draws options::plot through gnuplot.
/// Errors   gsched::error (io) if gnuplot fails.
void draw_plot(const options& from, const workload_facts& facts, std::span<const run_result> runs);

} // namespace serve_mix

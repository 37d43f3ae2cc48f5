// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "interference/pairs.hpp"
#include "interference/study.hpp"

#include <gsched/interference/coefficients.hpp>
#include <gsched/interference/corun_factors.hpp>
#include <gsched/interference/error_summary.hpp>

#include <cstddef>
#include <filesystem>
#include <iosfwd>
#include <map>

namespace interference {

/// The factors of a graph, and on how many measured slow-downs they rest.
struct graph_factors {
  gsched::corun_factors factors{};
  std::size_t pairs = 0; ///< of the graph with others, or with itself
};

/// What calibrate finds.
struct calibration {
  std::map<model_batch, graph_factors> graphs;
  gsched::error_summary kernels_before, kernels_after; ///< of the law by kernels, on these pairs
  gsched::error_summary means_before, means_after;     ///< of the law by means
};

/// How many steps calibrate takes.
[[nodiscard]] std::size_t steps_of_calibration(const group_set& pairs);

/// Looks for the factors of each graph that has pairs on SMs of their own, and sets them in `known`,
/// which has the graphs of `pairs`. One pair of factors serves the laws by kernels and by means: they
/// lessen the sum of both laws' errors, drawn to 1 where pairs are few. The coefficients stay.
/// Errors   gsched::error (too_small) for pairs none of which is on SMs of their own.
/// Cost     some 100 predictions of each pair.
[[nodiscard]] calibration calibrate(workloads& known, const group_set& pairs,
                                    const gsched::interference_coefficients& c,
                                    const on_progress& progress);

/// Writes the rows of a file of solo metrics as they are, but with the factors that were found in
/// the columns sensitivity and pressure.
/// Errors   those of common::write_factors.
void write_calibrated(std::ostream& out, const std::filesystem::path& solo,
                      const calibration& found);

} // namespace interference

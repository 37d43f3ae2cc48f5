// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "interference/pairs.hpp"
#include "interference/study.hpp"

#include <gsched/interference/coefficients.hpp>
#include <gsched/interference/corun_factors.hpp>
#include <gsched/interference/error_summary.hpp>
#include <gsched/interference/l2_loss.hpp>
#include <gsched/interference/start_loss.hpp>

#include <cstddef>
#include <filesystem>
#include <iosfwd>
#include <map>
#include <optional>

namespace interference {

/// What was found of a graph, and on how many measured slow-downs it rests.
struct graph_factors {
  gsched::corun_factors factors{}; ///< where there are pairs
  std::size_t pairs = 0;           ///< of the graph with others, or with itself
  gsched::l2_loss lost{};          ///< where there are streams
  std::size_t streams = 0;         ///< rows of the graph beside one
  gsched::start_loss at_start{};   ///< where it stands beside a graph that only starts kernels
  std::optional<double> mean_pressure{}; ///< where counters of its kernels are known
};

/// What calibrate finds. Errors are empty where it has no pairs.
struct calibration {
  std::map<model_batch, graph_factors> graphs;
  gsched::error_summary kernels_before, kernels_after; ///< of the law by kernels, on these pairs
  gsched::error_summary means_before, means_after;     ///< of the law by means
};

/// The graph of a pair that stands beside one on other SMs which uses less than 1% of L2 and DRAM;
/// null if there is none.
[[nodiscard]] const known_side* beside_starts(const known_group& g);

/// What calibrate looks at: graphs of the same `known`. All but one may be empty, or null.
struct calibrated_by {
  const group_set& pairs;
  const group_set& streams;
  const group_set& starts;
  const gsched::latency_table* table = nullptr;
};

/// How many steps calibrate takes.
[[nodiscard]] std::size_t steps_of_calibration(const workloads& known, const calibrated_by& by);

/// Looks for what measurements of `known` say of each graph, and sets it there.
/// - Of rows of `starts` that are beside_starts, in which only the other graph's starts cost it
///   time: its start_loss, with which the predicted slow-downs of all its rows have the mean of
///   those measured.
/// - Of rows of `streams` in which a graph stands beside a probe on other SMs that uses 0.8 to 2
///   times l2_loss::stream of DRAM: its l2_loss, the mean of all its rows.
/// - Of `table` and of profiles with counters: its pressure in predictions from means, by
///   mean_pressures, of all such graphs beside each other on halves of the GPU.
/// - Of pairs on SMs of their own: its factors, by its loss. One pair of factors serves the laws by
///   kernels and by means: they lessen the sum of both laws' errors, drawn to 1 where pairs are
///   few.
/// The coefficients stay.
/// Errors   gsched::error (too_small) for pairs none of which is on SMs of their own, for streams
///          or starts none of which is a row as above, and for a table without such a graph.
/// Cost     some 100 predictions of each pair, and one of each two graphs of the table.
[[nodiscard]] calibration calibrate(workloads& known, const calibrated_by& by,
                                    const gsched::interference_coefficients& c,
                                    const on_progress& progress);

/// Writes the rows of a file of solo metrics as they are, but with what was found in the columns
/// sensitivity, pressure, l2_loss, start_loss_us and mean_pressure. Without any pairs the factors
/// are those of the file, and so are the losses of a graph that was not measured for them, and its
/// pressure in predictions from means.
/// Errors   those of common::write_factors.
void write_calibrated(std::ostream& out, const std::filesystem::path& solo,
                      const calibration& found);

} // namespace interference

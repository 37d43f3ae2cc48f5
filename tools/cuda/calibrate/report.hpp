// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "calibrate/experiments.hpp"
#include "calibrate/options.hpp"
#include "calibrate/samples.hpp"

#include <gsched/cuda/gpu.hpp>
#include <gsched/io/preset_json.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace calibrate {

/// A row of the table.
struct row {
  std::string what;
  double value = 0;
  std::string unit;
  double spread = 0; ///< interquartile range over the rounds
  std::string how;
  std::string pointer; ///< JSON pointer of the preset's field that it sets; empty: none
};

/// By the value of CUDA_DEVICE_MAX_CONNECTIONS.
using queue_counts = std::map<std::uint32_t, queue_figures>;

/// A preset and its report.
struct findings {
  std::vector<row> rows;
  gsched::sim::preset preset;
  gsched::preset_provenance from; ///< without the date
};

/// Derives the preset of this GPU from the measurements. Fields that were not measured keep the
/// library's values and are listed in findings::from.kept.
[[nodiscard]] findings conclude(const samples& measured, const queue_counts& queues,
                                const gsched::cuda::gpu& gpu);

/// Prints the table, and writes the files named by the options.
/// Errors   gsched::error: io.
void report(const options& o, findings found);

} // namespace calibrate

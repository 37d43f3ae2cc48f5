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

/// One line of the table.
struct row {
  std::string what;
  double value = 0;
  std::string unit;
  double spread = 0; ///< between the quartiles of the rounds
  std::string how;
  std::string pointer; ///< of the preset's field that it sets; empty if it sets none
};

/// By CUDA_DEVICE_MAX_CONNECTIONS.
using queue_counts = std::map<std::uint32_t, queue_figures>;

/// A preset and what is to be said of it.
struct findings {
  std::vector<row> rows;
  gsched::sim::preset preset;
  gsched::sim::preset_provenance from; ///< but for the date
};

/// What the simulator is to be told of this GPU. What was not measured stays as the library has it,
/// and findings::from.kept says so.
[[nodiscard]] findings conclude(const samples& measured, const queue_counts& queues,
                                const gsched::cuda::gpu& gpu);

/// Prints the table, and writes the files that the options name.
/// Errors   gsched::error: io.
void tell(const options& o, findings found);

} // namespace calibrate

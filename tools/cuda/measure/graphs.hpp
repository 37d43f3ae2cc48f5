// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "measure/options.hpp"

#include <gsched/core/quantity.hpp>
#include <gsched/cuda/program.hpp>
#include <gsched/gsched_measure.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace measure {

/// A graph to measure, of a model for a batch.
struct measured_graph {
  std::string model;
  std::uint32_t batch = 1;
  std::string dtype;
  gsched::byte_count input{};
  gsched::byte_count output{};
  /// At least one. Each has memory of its own, so that they can run at the same time.
  std::vector<std::shared_ptr<gsched::cuda::program>> instances;

  /// "resnet50_b8".
  [[nodiscard]] std::string name() const { return model + "_b" + std::to_string(batch); }
};

/// The graphs that the options name, and captured ones, on the current GPU.
/// Errors   as cuda::program, and those of the adaptors; bad_option for two of one name, and for a
///          name that a table cannot have.
[[nodiscard]] std::vector<measured_graph>
make_graphs(const options& o, std::span<const gsched_measure_graph> captured);

/// The built-in graph `ticks`, which only starts kernels.
[[nodiscard]] measured_graph make_ticks();
[[nodiscard]] bool is_ticks(const measured_graph& g);

} // namespace measure

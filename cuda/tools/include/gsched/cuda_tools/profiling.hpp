// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>
#include <gsched/job/profile.hpp>

#include <cuda.h>

#include <cstdint>
#include <string>
#include <vector>

namespace gsched::cuda {

/// What a profile says beside what is measured, and how to measure.
struct profiling_options {
  std::string model; ///< with `batch`, the program's name
  std::uint32_t batch = 1;
  std::string dtype;
  byte_count input{};
  byte_count output{};
  int replays = 5; ///< each time is the median of that many
  /// Also measured on green contexts of at least so many SMs each, one after the other; what takes
  /// the whole GPU is left out. At most 8. With CUPTI only.
  std::vector<sm_count> partitions;
  /// Durations as the profiling interface of the toolkit (CUPTI) sees them; false: as cuda::program
  /// measures them by itself, and the profile calls them estimates.
  bool cupti = true;
  std::string cupti_library; ///< its file; empty: looked for where toolkits keep it
};

/// Runs a captured graph on the current GPU and writes down what it consists of and how long each
/// of its operations takes alone.
///
/// Differs  each operation is launched by itself, in the graph's order, so that nothing overlaps
///          it; graph_replay is the whole graph as it is, measured before.
/// Errors   as cuda::program; no_device, naming the library, where CUPTI is not found;
///          bad_option for other replays than 1 to 1000; device_failed with the words of CUDA or
///          CUPTI.
/// Cost     about 50 us an operation and replay, and some milliseconds to build them.
/// Threads  one at a time in a process. The GPU should have nothing else to do.
[[nodiscard]] profile profile_graph(CUgraph graph, const profiling_options& how);

} // namespace gsched::cuda

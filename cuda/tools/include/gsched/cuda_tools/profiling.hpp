// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>
#include <gsched/job/profile.hpp>

#include <cuda.h>

#include <cstdint>
#include <string>
#include <vector>

namespace gsched::cuda {

/// Options of profile_graph: facts of the model, and how to measure.
struct profiling_options {
  std::string model; ///< together with `batch` the program's name
  std::uint32_t batch = 1;
  std::string dtype;
  byte_count input{};
  byte_count output{};
  int replays = 5; ///< times are medians of this many replays
  /// Also measure on green contexts of at least these numbers of SMs, one after the other. Sizes of
  /// the whole GPU are skipped. At most 8; needs CUPTI.
  std::vector<sm_count> partitions;
  /// True: durations by the toolkit's profiling interface (CUPTI). False: as cuda::program measures
  /// them; the profile then calls them estimates.
  bool cupti = true;
  std::string cupti_library; ///< path of the library; empty: search the toolkit's usual places
};

/// Profiles a captured graph on the current GPU: runs it, and records its operations and the time
/// of each of them alone.
///
/// Differs  each operation is launched separately, in graph order, so that nothing overlaps it;
///          graph_replay is the time of the whole graph, measured before.
/// Errors   as cuda::program; no_device, naming the library, if CUPTI is not found; bad_option if
///          replays is not 1 to 1000; device_failed with the message of CUDA or CUPTI.
/// Cost     about 50 us for each operation and replay, plus some milliseconds of building.
/// Threads  one at a time in a process. The GPU should be idle.
[[nodiscard]] profile profile_graph(CUgraph graph, const profiling_options& how);

} // namespace gsched::cuda

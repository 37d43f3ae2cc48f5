// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace gsched::cuda {

/// A counter by its names, the preferred one first: GPUs differ in which they have.
struct counter_name {
  std::vector<const char*> names;
  bool optional = false; ///< 0 on GPUs that have none of the names; otherwise that is an error
};

/// The work of count_ranges, by the index of its range. Each call waits for its work.
struct ranged_work {
  std::function<void(std::size_t)> before; ///< what must run before the range, and is not counted
  std::function<void(std::size_t)> run;    ///< what is counted
  std::string what;                        ///< for errors: the graph, and how many kernels it has
};

/// What count_ranges read.
struct range_values {
  std::vector<std::vector<double>> values; ///< for each range one a counter, in their order
  std::vector<std::string> missing;        ///< optional counters that the GPU does not have
};

/// Runs work in ranges under CUPTI's range profiler, as often as the counters need.
///
/// Errors   no_device if the GPU has no such counters or does not permit them; device_failed with
///          CUPTI's message, or if a range has no values.
/// Threads  one at a time in a process. The context is current.
[[nodiscard]] range_values count_ranges(std::span<const counter_name> counters, std::size_t ranges,
                                        const ranged_work& work, const std::string& cupti_library);

} // namespace gsched::cuda

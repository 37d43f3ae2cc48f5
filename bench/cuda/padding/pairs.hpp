// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "padding/pair.hpp"
#include "padding/run.hpp"
#include "padding/selections.hpp"
#include "padding/subjects.hpp"
#include "padding/timeline.hpp"

#include "experiment.hpp"

#include <gsched/cuda/gpu.hpp>
#include <gsched/preempt/colocate/pad_limits.hpp>
#include <gsched/preempt/colocate/quiet.hpp>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <span>

namespace padding {

/// Shared by all parts of the experiment.
struct bench {
  const run_options& how;
  subjects& all;
  timeline& time;
  experiment::watchdog& dog;
  double peak_gbps = 0; ///< what the fastest copy moves, reads and writes together
  gsched::quiet_options quiet{};
  const gsched::cuda::gpu& gpu;
};

/// The rate at which the fastest copy of the subjects moves bytes.
[[nodiscard]] double peak_of(const subjects& all);

/// As blocks_for of the kernels' facts, with the level of both together.
///
/// The level of both together is that of the actual kernel: block sizes differ, so it can be less
/// than the lower of their levels.
[[nodiscard]] std::uint32_t blocks_for(selection by, const bench& b, std::size_t real_time,
                                       std::size_t corunner,
                                       std::uint32_t most = gsched::pad_limits::no_limit);

/// The file of the pairs' facts and times: a line for each, written as it comes.
class facts_file {
public:
  /// An empty path: no file.
  explicit facts_file(const bench& b);
  void add(const bench& b, const pair& p);

private:
  std::ofstream out_;
};

/// Prints and saves the effect of each selection on real-time kernels, and its worst pairs.
void report_pairs(const bench& b, std::span<const pair> done, std::size_t all, results& out);

/// Proxies without co-runners, and function pointers, relative to plain kernels.
void measure_overhead(const bench& b, results& out);
/// Every selected pair, relative to the real-time kernel alone.
void measure_pairs(const bench& b, results& out);

} // namespace padding

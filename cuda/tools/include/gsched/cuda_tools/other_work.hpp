// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda_tools/replay_times.hpp>

#include <cstddef>
#include <cstdio>
#include <string>

namespace gsched::cuda {

struct gpu;

/// One line if replays of a graph on all SMs take now more time, now less, as beside other work on
/// these SMs; otherwise empty.
[[nodiscard]] inline std::string uneven_replays(const std::string& gpu, const replay_times& t) {
  constexpr double most = 0.1; // in which work on the same SMs differs
  if (t.mean <= (1 + most) * t.p10) return {};
  char line[160];
  std::snprintf(line, sizeof line,
                ": the same graph takes %.1f us at best and %.1f us in the mean of %zu, expected "
                "at most %.0f%% more: is the GPU in use?",
                t.p10, t.mean, t.count, 100 * most);
  return gpu + line;
}

/// The same if replays begin late: a process that takes turns with this one lets it wait before a
/// graph, and seldom within one. `each_us` is the mean of `count` launches, each until its end.
[[nodiscard]] inline std::string late_replays(const std::string& gpu, const replay_times& t,
                                              double each_us, std::size_t count) {
  constexpr double most_waited = 0.3; // of its time
  if (each_us <= (1 + most_waited) * t.p10) return {};
  char line[160];
  std::snprintf(line, sizeof line,
                ": a graph that takes %.1f us begins and ends in %.1f us, in the mean of %zu, "
                "expected at most %.0f%% more: is the GPU in use?",
                t.p10, each_us, count, 100 * most_waited);
  return gpu + line;
}

/// Replays a graph of stand-in kernels on all SMs of the current GPU. One line with the times where
/// they show that other work runs there; otherwise empty.
///
/// Errors   device_failed with CUDA's message.
/// Cost     0.3 s, which are many turns of processes of some milliseconds each.
/// Threads  one at a time. This process should have nothing else on the GPU.
[[nodiscard]] std::string find_other_work(const gpu& on);

} // namespace gsched::cuda

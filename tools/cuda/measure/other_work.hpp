// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda_tools/replay_times.hpp>

#include <cstddef>
#include <string>

namespace measure {

/// Whether times of a graph on all SMs show that other work runs on the GPU: one line, or none.

/// Replays of the graph that take now more time, now less, as beside work on the same SMs.
[[nodiscard]] std::string uneven_replays(const std::string& gpu,
                                         const gsched::cuda::replay_times& replays);

/// Replays that begin late: a process that takes turns with this one lets it wait before a graph,
/// and seldom within one. `each_us` is the mean of `count` launches, each until its end.
[[nodiscard]] std::string late_replays(const std::string& gpu,
                                       const gsched::cuda::replay_times& replays, double each_us,
                                       std::size_t count);

} // namespace measure

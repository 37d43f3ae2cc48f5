// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/launch.hpp>
#include <gsched/cuda_tools/probe.hpp>
#include <gsched/cuda_tools/replay_times.hpp>

#include <cuda.h>

#include <cstddef>
#include <functional>
#include <vector>

namespace gsched::cuda {

/// An operation of a graph that ran beside a probe.
struct beside_operation {
  std::size_t operation = 0;
  launch_shape launch{};
  replay_times alone{}; ///< of all passes, from its launch to its end, with nothing else on the GPU
  replay_times beside{}; ///< the same beside the probe
  bool held_up = false;  ///< it waited for the probe, which ended by itself
};

/// Runs each kernel of a graph by itself, in order, beside a probe that ends by itself after
/// `limit_us`: a kernel of which no block fits beside the probe waits for that. It shows what a
/// probe costs each kernel, and whether kernels_held_up of occupancy/beside.hpp is right. `passes`
/// times, with the kernels alone before each. A kernel that takes `limit_us` / 2 longer beside the
/// probe waits or is slowed: it runs again beside a probe of twice the limit, which tells
/// (waited_for_probe). One that waits is measured beside the probe only once. `beside` of one that
/// is slowed so much is in part without the probe. `progressed`, if there is one, is called after
/// each run of a kernel.
///
/// Source   Elvinger et al., SoCC 2025, section 4.2, doi:10.1145/3772052.3772270.
/// Errors   as probe and check_sms; device_failed with CUDA's message, or if no block of the probe
///          starts.
/// Cost     0.2 ms and its time for each kernel and pass, but up to three times `limit_us` in all
///          where one waits; up to `limit_us` a pass, and eight times that, where one is slowed so
///          much.
/// Threads  one at a time. The GPU should be idle.
[[nodiscard]] std::vector<beside_operation>
each_beside(CUgraph graph, const probe_options& how, int gpu = 0, double limit_us = 3000,
            std::size_t passes = 1, const std::function<void()>& progressed = {});

/// How many operations each_beside returns for a graph. Sets of memory, and copies on the GPU, run
/// as kernels.
///
/// Errors   as program.
[[nodiscard]] std::size_t kernels_beside(CUgraph graph);

} // namespace gsched::cuda

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "owners.hpp"

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace gsched::cuda {

[[nodiscard]] exec_owner instantiate(CUgraph graph);

/// The median time of a graph on a stream, in nanoseconds, replayed back to back. It contains no
/// host time.
/// Errors   device_failed with CUDA's message.
[[nodiscard]] double median_replay_ns(cudaGraphExec_t graph, cudaStream_t stream, int runs);

} // namespace gsched::cuda

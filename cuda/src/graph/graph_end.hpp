// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/driver.hpp>

#include <cuda.h>

namespace gsched::cuda {

/// Adds a kernel to a graph that runs when all else in it has ended, with the priority of a kernel
/// before it.
///
/// The kernel waits for every node from which no full edge leads. A programmatic edge does not
/// count: the kernel behind one may start, and end, before the kernel before it has ended.
CUgraphNode add_at_end(const driver_functions& cu, CUgraph graph,
                       const CUDA_KERNEL_NODE_PARAMS& kernel);

} // namespace gsched::cuda

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/driver.hpp>

#include <cuda.h>

namespace gsched::cuda {

/// Adds a kernel to a graph that runs when all other nodes have ended, with the priority of a
/// kernel before it.
///
/// The kernel depends on every node without an outgoing full edge. Programmatic edges do not count:
/// the kernel behind one may start, and end, before the kernel before it has ended.
CUgraphNode add_at_end(const driver_functions& cu, CUgraph graph,
                       const CUDA_KERNEL_NODE_PARAMS& kernel);

} // namespace gsched::cuda

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/driver.hpp>

#include <cuda.h>

namespace gsched::cuda {

/// Adds a kernel to a graph that runs when all else in it has ended, with the priority of a kernel
/// before it.
///
/// A programmatic edge counts as any other: the kernel behind one has to wait for the kernel before
/// it (griddepcontrol.wait) if that lets it start early, so it ends later.
CUgraphNode add_at_end(const driver_functions& cu, CUgraph graph,
                       const CUDA_KERNEL_NODE_PARAMS& kernel);

} // namespace gsched::cuda

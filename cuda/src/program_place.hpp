// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <string>

namespace gsched::cuda {

/// Has the kernels of a graph run in a context of the same GPU, that of a green context: each node
/// is replaced by one that was made for it, with the same parameters, attributes and edges. A
/// kernel node runs on the SMs of the context it was made for, whatever stream its graph is
/// launched into, and none can be changed so afterwards. Not in child graphs: call it for each.
///
/// Errors   bad_graph for a kernel that belongs to one context, as those of cuModuleLoad do:
///          "WHERE: kernel NAME ..."; device_failed with CUDA's words.
void place_kernels(CUgraph graph, CUcontext where, const std::string& what);

} // namespace gsched::cuda

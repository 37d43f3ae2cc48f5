// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

namespace cliff {

/// Kernels for direct launches. Those on one line are in one module.
enum class kernel {
  same,
  empty,
  wide,
  lasting, // beside the graph's own kernel
  other_module,
  local,
  shared,
  cooperative,
  cluster,
  print,
  allocate // need the device's heaps
};

/// The kernel of the reference graphs: at most 128 threads, each of which changes one float.
[[nodiscard]] const void* graph_kernel() noexcept;

/// Launches one; `memory` holds 128 floats.
[[nodiscard]] cudaError_t launch(kernel which, float* memory, cudaStream_t on);

[[nodiscard]] cudaError_t launch_special(kernel which, float* memory, cudaStream_t on);
[[nodiscard]] cudaError_t launch_talking(kernel which, float* memory, cudaStream_t on);

} // namespace cliff

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

namespace measure {

/// Whether the GPU still works after a step failed. A call that only asked for too much leaves
/// CUDA's last error set: it is cleared. A failed kernel ends the context, and every later call
/// reports it.
[[nodiscard]] inline bool gpu_works() noexcept {
  static_cast<void>(cudaGetLastError());
  return cudaDeviceSynchronize() == cudaSuccess;
}

} // namespace measure

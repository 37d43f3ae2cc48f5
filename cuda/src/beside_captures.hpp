// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

namespace gsched::cuda {

/// Another thread's capture does not concern what is done here, nor is it spoilt by it.
class beside_captures {
public:
  beside_captures() noexcept { swap(); }
  ~beside_captures() { swap(); }
  beside_captures(const beside_captures&) = delete;
  beside_captures& operator=(const beside_captures&) = delete;

private:
  void swap() noexcept { cudaThreadExchangeStreamCaptureMode(&mode_); }
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

} // namespace gsched::cuda

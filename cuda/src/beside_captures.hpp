// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

namespace gsched::cuda {

/// While it lives, its thread is in the relaxed capture mode: a capture of another thread in global
/// mode neither refuses the thread's calls of CUDA nor is spoilt by them.
///
/// Cost     two calls of the runtime. Threads  each for itself.
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

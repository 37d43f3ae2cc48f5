// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

namespace gsched::cuda {

/// Puts the calling thread into the relaxed capture mode during its lifetime: captures of other
/// threads in global mode neither refuse the thread's CUDA calls nor are invalidated by them.
///
/// Cost     two calls of the runtime.
/// Threads  affects the calling thread only.
class relaxed_capture {
public:
  relaxed_capture() noexcept { swap(); }
  ~relaxed_capture() { swap(); }
  relaxed_capture(const relaxed_capture&) = delete;
  relaxed_capture& operator=(const relaxed_capture&) = delete;

private:
  void swap() noexcept { cudaThreadExchangeStreamCaptureMode(&mode_); }
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

} // namespace gsched::cuda

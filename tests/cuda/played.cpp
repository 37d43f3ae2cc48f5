// SPDX-License-Identifier: Apache-2.0
#include "cuda/played.hpp"

#include <gsched/cuda/driver.hpp>

#include <array>
#include <cstddef>

using gsched::testing::cuda_played;

gsched::testing::played gsched::testing::cuda_played;

namespace {

CUresult write_value(CUstream, CUdeviceptr, cuuint32_t, unsigned int) {
  return cuda_played.fails() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

} // namespace

// The names are those that the linker's --wrap gives.
extern "C" {
cudaError_t __wrap_cudaStreamCreateWithFlags(cudaStream_t* s, unsigned) {
  return cuda_played.make(s);
}
cudaError_t __wrap_cudaStreamCreateWithPriority(cudaStream_t* s, unsigned, int) {
  return cuda_played.make(s);
}
cudaError_t __wrap_cudaStreamDestroy(cudaStream_t s) { return cuda_played.destroy(s); }
cudaError_t __wrap_cudaEventCreate(cudaEvent_t* e) { return cuda_played.make(e); }
cudaError_t __wrap_cudaEventCreateWithFlags(cudaEvent_t* e, unsigned) {
  return cuda_played.make(e);
}
cudaError_t __wrap_cudaEventDestroy(cudaEvent_t e) { return cuda_played.destroy(e); }
cudaError_t __wrap_cudaMalloc(void** p, std::size_t) { return cuda_played.make(p); }
cudaError_t __wrap_cudaFree(void* p) { return cuda_played.destroy(p); }
cudaError_t __wrap_cudaHostAlloc(void** p, std::size_t bytes, unsigned) {
  static std::array<std::uint64_t, 64> memory; // the host writes to it
  if (bytes > sizeof memory || cuda_played.fails()) return cudaErrorUnknown;
  *p = memory.data();
  cuda_played.alive.insert(reinterpret_cast<std::uintptr_t>(*p));
  return cudaSuccess;
}
cudaError_t __wrap_cudaFreeHost(void* p) { return cuda_played.destroy(p); }
cudaError_t __wrap_cudaMemset(void*, int, std::size_t) { return cuda_played.work(); }
cudaError_t __wrap_cudaMemcpyAsync(void*, const void*, std::size_t, cudaMemcpyKind, cudaStream_t) {
  return cuda_played.work();
}
cudaError_t __wrap_cudaStreamSynchronize(cudaStream_t) { return cuda_played.work(); }
cudaError_t __wrap_cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cuda_played.work();
}
cudaError_t __wrap_cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode*) {
  return cudaSuccess;
}
cudaError_t __wrap_cudaHostGetDevicePointer(void** there, void* here, unsigned) {
  *there = here;
  return cuda_played.work();
}
cudaError_t __wrap_cudaGetDevice(int* ordinal) {
  *ordinal = 0;
  return cudaSuccess;
}
cudaError_t __wrap_cudaSetDevice(int) { return cudaSuccess; }
cudaError_t __wrap_cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  *value = 0;
  return cudaSuccess;
}
const gsched::cuda::driver_functions* __wrap__ZN6gsched4cuda6driverEv() {
  static const gsched::cuda::driver_functions all = [] {
    gsched::cuda::driver_functions f{};
    f.cuStreamWriteValue32 = write_value;
    return f;
  }();
  return &all;
}
}

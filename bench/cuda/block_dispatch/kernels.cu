// SPDX-License-Identifier: Apache-2.0
#include "block_dispatch/kernels.hpp"

#include <gsched/cuda/error.hpp>
#include <gsched/cuda/notify/instrument.cuh>

namespace block_dispatch {

using gsched::cuda::check;

namespace {

/// Sleeps while it waits: blocks that only poll the clock would saturate the issue slots of an SM
/// and slow down its other blocks.
__device__ __forceinline__ void stay(long long cycles, unsigned stride, unsigned factor) {
  const long long start = clock64();
  const bool longer = stride != 0 && blockIdx.x % stride == 0;
  const long long until = longer ? cycles * factor : cycles;
  while (clock64() - start < until) __nanosleep(200);
}

__global__ void hold(gsched::cuda::report, long long cycles, unsigned stride, unsigned factor) {
  stay(cycles, stride, factor);
}

__global__ void hold_reporting(gsched::cuda::report to, long long cycles, unsigned stride,
                               unsigned factor) {
  GSCHED_INSTRUMENT(to);
  stay(cycles, stride, factor);
}

__global__ void tell(unsigned long long* count, unsigned long long* word) {
  const unsigned long long n = *count + 1; // launches of one stream: one at a time
  *count = n;
  __threadfence_system();
  *static_cast<volatile unsigned long long*>(word) = n;
}

} // namespace

const void* hold_kernel(bool instrumented) noexcept {
  return instrumented ? reinterpret_cast<const void*>(&hold_reporting)
                      : reinterpret_cast<const void*>(&hold);
}

const void* tell_kernel() noexcept { return reinterpret_cast<const void*>(&tell); }

void allow_shared_memory() {
  int gpu = 0;
  int most = 0;
  check(cudaGetDevice(&gpu), "GPU");
  check(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, gpu), "GPU");
  for (const bool instrumented : {false, true}) {
    // The instrumented kernel has four bytes of its own.
    check(cudaFuncSetAttribute(hold_kernel(instrumented),
                               cudaFuncAttributeMaxDynamicSharedMemorySize, most - 1024),
          "shared memory");
  }
}

} // namespace block_dispatch

// SPDX-License-Identifier: Apache-2.0
#include "kernels.hpp"

#include <gsched/cuda/notify/instrument.cuh>

#include <cstdint>

namespace soak {

namespace {

using gsched::cuda::report;

__global__ void nothing(report to) { GSCHED_INSTRUMENT(to); }

__global__ void returns(report to) {
  GSCHED_INSTRUMENT(to);
  __shared__ unsigned met;
  if (threadIdx.x % 7 == blockIdx.x % 7) return;
  __syncthreads();
  if (threadIdx.x < 32) atomicAdd(&met, threadIdx.x);
  __syncthreads();
  if (threadIdx.x % 2 == 0) return;
  atomicAdd(&met, 1);
}

__global__ void stays(report to) {
  GSCHED_INSTRUMENT(to);
  const std::int64_t start = clock64();
  const std::int64_t cycles = (blockIdx.x * 2654435761u >> 22) & 511;
  while (clock64() - start < cycles) {
  }
}

} // namespace

cudaError_t launch(const work& w, cudaStream_t stream, const report& to) {
  switch (w.how) {
  case body::nothing: nothing<<<w.blocks, w.threads, 0, stream>>>(to); break;
  case body::returns: returns<<<w.blocks, w.threads, 0, stream>>>(to); break;
  case body::stays: stays<<<w.blocks, w.threads, 0, stream>>>(to); break;
  }
  return cudaPeekAtLastError();
}

} // namespace soak

// SPDX-License-Identifier: Apache-2.0
#include "instrument_kernels.hpp"

#include <gsched/cuda/notify/instrument.cuh>

#include <cooperative_groups.h>

namespace gsched::testing {

namespace {

using cuda::report;

__device__ std::uint32_t thread_in_block() {
  return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}
__device__ std::uint32_t threads_of_block() { return blockDim.x * blockDim.y * blockDim.z; }
__device__ std::uint64_t thread_in_grid() {
  const std::uint64_t block =
      blockIdx.x + std::uint64_t{gridDim.x} * (blockIdx.y + std::uint64_t{gridDim.y} * blockIdx.z);
  return block * threads_of_block() + thread_in_block();
}

/// The same kernel twice: with the macro as its first line, and without.
#define GSCHED_BOTH(name, ...)                                                                     \
  __global__ void name##_instrumented(report to, std::uint32_t* out, std::uint32_t argument) {     \
    GSCHED_INSTRUMENT(to);                                                                         \
    __VA_ARGS__                                                                                    \
  }                                                                                                \
  __global__ void name##_plain(report, std::uint32_t* out, std::uint32_t argument) { __VA_ARGS__ }

GSCHED_BOTH(straight, {
  const std::uint64_t i = thread_in_grid();
  out[i] = static_cast<std::uint32_t>(i) * 2654435761u + argument;
})

GSCHED_BOTH(scattered_return, {
  __shared__ std::uint32_t met;
  const std::uint32_t t = thread_in_block();
  out[thread_in_grid()] = t;
  if (t % 3 == 1) return;
  if (t == 0) met = argument;
  __syncthreads();
  atomicAdd(&met, t);
  __syncthreads();
  if (t % 3 == 2) {
    out[thread_in_grid()] = met;
    return;
  }
  out[thread_in_grid()] = met + 1;
})

GSCHED_BOTH(warps_return, {
  __shared__ std::uint32_t met;
  const std::uint32_t t = thread_in_block();
  out[thread_in_grid()] = t;
  if (t < 32) return;
  if (t == 32) met = argument;
  for (int round = 0; round < 8; ++round) {
    __syncthreads();
    atomicAdd(&met, t);
  }
  __syncthreads();
  out[thread_in_grid()] = met;
})

GSCHED_BOTH(first_returns, {
  __shared__ std::uint32_t met;
  const std::uint32_t t = thread_in_block();
  out[thread_in_grid()] = t + argument;
  if (t == 0) return;
  if (t == 1) met = argument;
  __syncthreads();
  atomicAdd(&met, t);
  __syncthreads();
  out[thread_in_grid()] = met;
})

GSCHED_BOTH(loop_return, {
  __shared__ std::uint32_t met;
  const std::uint32_t t = thread_in_block();
  if (t == 0) met = argument;
  __syncthreads();
  for (std::uint32_t round = 0; round < 40; ++round) {
    if (t % 40 == 39 - round) {
      out[thread_in_grid()] = met + round;
      return;
    }
    __syncthreads();
    if (t % 40 == 0) atomicAdd(&met, round);
    __syncthreads();
  }
})

GSCHED_BOTH(shared, {
  extern __shared__ std::uint32_t room[];
  const std::uint32_t words = argument;
  const std::uint32_t n = threads_of_block();
  for (std::uint32_t i = thread_in_block(); i < words; i += n) room[i] = i * 40503u + blockIdx.x;
  __syncthreads();
  std::uint32_t sum = 0;
  for (std::uint32_t i = thread_in_block(); i < words; i += n) sum += room[words - 1 - i];
  out[thread_in_grid()] = sum;
})

GSCHED_BOTH(cluster, {
#if __CUDA_ARCH__ >= 900
  __shared__ std::uint32_t here;
  auto blocks = cooperative_groups::this_cluster();
  if (thread_in_block() == 0) here = blockIdx.x + argument;
  blocks.sync();
  const std::uint32_t next = (blocks.block_rank() + 1) % blocks.num_blocks();
  out[thread_in_grid()] = *blocks.map_shared_rank(&here, next);
  blocks.sync();
#endif
})

GSCHED_BOTH(slow, {
  out[thread_in_grid()] = argument;
  if (thread_in_block() != 0) return;
  std::uint64_t start;
  std::uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  while (now - start < argument);
})

using either_kernel = void (*)(report, std::uint32_t*, std::uint32_t);

either_kernel find(body how, bool instrumented) {
  switch (how) {
#define GSCHED_CASE(name)                                                                          \
  case body::name: return instrumented ? name##_instrumented : name##_plain;
    GSCHED_CASE(straight)
    GSCHED_CASE(scattered_return)
    GSCHED_CASE(warps_return)
    GSCHED_CASE(first_returns)
    GSCHED_CASE(loop_return)
    GSCHED_CASE(shared)
    GSCHED_CASE(cluster)
    GSCHED_CASE(slow)
#undef GSCHED_CASE
  }
  return nullptr;
}

} // namespace

cudaError_t launch(const shape& s, cudaStream_t stream, const report& to, std::uint32_t* out) {
  const either_kernel k = find(s.how, s.instrumented);
  if (s.dynamic_bytes > 0) {
    const cudaError_t e = cudaFuncSetAttribute(k, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                               static_cast<int>(s.dynamic_bytes));
    if (e != cudaSuccess) return e;
  }
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {s.cluster, 1, 1};
  cudaLaunchConfig_t how{};
  how.gridDim = s.grid;
  how.blockDim = s.block;
  how.dynamicSmemBytes = s.dynamic_bytes;
  how.stream = stream;
  how.attrs = &attribute;
  how.numAttrs = s.cluster > 1 ? 1 : 0;
  return cudaLaunchKernelEx(&how, k, to, out, s.argument);
}

} // namespace gsched::testing

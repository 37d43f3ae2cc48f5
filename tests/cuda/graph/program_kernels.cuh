// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/notify/report.hpp>

#include <cooperative_groups.h>
#include <cuda_runtime_api.h>

#include <cstdint>

// Kernels for tests of captured graphs. Two of them in the wrong order, a skipped one or one that
// runs twice changes the result.

namespace gsched::testing {

using word = std::uint32_t;

__host__ __device__ inline word mixed(word a, word b, word salt) {
  word x = a * 2654435761u + b * 40503u + salt;
  x ^= x >> 15;
  return x * 2246822519u + 1;
}

static __global__ void step(const word* in, word* out, int n, word salt) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) out[i] = mixed(in[i], in[(i * 7 + 3) % n], salt);
}

static __global__ void join(const word* a, const word* b, word* out, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) out[i] = mixed(a[i], b[i], out[i]);
}

/// Depends on the block's rank in its cluster.
static __global__ void cluster_step(const word* in, word* out, int n) {
#if __CUDA_ARCH__ >= 900
  const auto cluster = cooperative_groups::this_cluster();
  const word salt = cluster.num_blocks() * 1000 + cluster.block_rank();
#else
  const word salt = 0;
#endif
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) out[i] = mixed(in[i], in[(i + 1) % n], salt);
}

/// May start before the previous kernel has ended, and waits for it inside.
static __global__ void early_step(const word* in, word* out, int n, word salt) {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) out[i] = mixed(in[i], in[(i + 5) % n], salt);
}

/// Stores its report, to which an instrumented kernel would write.
static __global__ void reporting_step(const word* in, cuda::report to, word* out, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) out[i] = mixed(in[i], in[(i + 2) % n], 77);
  if (i == 0 && to.counters != nullptr) atomicAdd(reinterpret_cast<word*>(to.counters), 1u);
}

static __global__ void shared_step(const word* in, word* out, int n) {
  extern __shared__ word mine[];
  __shared__ word fixed[64];
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  mine[threadIdx.x] = i < n ? in[i] : 0;
  if (threadIdx.x < 64) fixed[threadIdx.x] = threadIdx.x;
  __syncthreads();
  if (i < n) out[i] = mixed(mine[blockDim.x - 1 - threadIdx.x], fixed[threadIdx.x % 64], 5);
}

static __global__ void spin(std::uint64_t ns) {
  std::uint64_t from, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(from)::"memory");
  do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)::"memory");
  while (now - from < ns);
}

} // namespace gsched::testing

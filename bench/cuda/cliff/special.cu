// SPDX-License-Identifier: Apache-2.0
#include "cliff/kernels.hpp"

#include <cooperative_groups.h>

#include <cstddef>

namespace cliff {

namespace {

__global__ void other_kernel(float* memory) { memory[threadIdx.x % 128] += 1.0f; }

// 4 KiB a thread, indexed at run time, so that it is local memory.
__global__ void local_kernel(float* memory) {
  float own[1024];
  const unsigned seed = static_cast<unsigned>(memory[threadIdx.x % 128]);
  for (unsigned i = threadIdx.x; i < 1024; i += 64) own[(i * 17 + seed) % 1024] = 1.0f;
  memory[threadIdx.x % 128] = own[seed % 1024];
}

__global__ void shared_kernel(float* memory) {
  extern __shared__ float room[];
  room[threadIdx.x] = memory[threadIdx.x % 128];
  __syncthreads();
  memory[threadIdx.x % 128] = room[(threadIdx.x + 1) % blockDim.x];
}

__global__ void cooperative_kernel(float* memory) {
  memory[threadIdx.x % 128] += 1.0f;
  cooperative_groups::this_grid().sync();
}

__global__ void cluster_kernel(float* memory) {
  memory[threadIdx.x % 128] += 1.0f;
#if __CUDA_ARCH__ >= 900
  cooperative_groups::this_cluster().sync();
#endif
}

cudaError_t launch_cluster(float* memory, cudaStream_t on) {
  cudaLaunchAttribute pair{};
  pair.id = cudaLaunchAttributeClusterDimension;
  pair.val.clusterDim.x = 2;
  pair.val.clusterDim.y = 1;
  pair.val.clusterDim.z = 1;
  cudaLaunchConfig_t how{};
  how.gridDim = dim3(2);
  how.blockDim = dim3(64);
  how.stream = on;
  how.attrs = &pair;
  how.numAttrs = 1;
  return cudaLaunchKernelEx(&how, cluster_kernel, memory);
}

} // namespace

cudaError_t launch_special(kernel which, float* memory, cudaStream_t on) {
  constexpr std::size_t large = 100 * 1024;
  switch (which) {
  case kernel::local: local_kernel<<<1, 64, 0, on>>>(memory); break;
  case kernel::shared: {
    const cudaError_t allowed = cudaFuncSetAttribute(
        shared_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(large));
    if (allowed != cudaSuccess) return allowed;
    shared_kernel<<<1, 64, large, on>>>(memory);
    break;
  }
  case kernel::cooperative: {
    void* arguments[] = {&memory};
    return cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(&cooperative_kernel), dim3(4),
                                       dim3(64), arguments, 0, on);
  }
  case kernel::cluster: return launch_cluster(memory, on);
  default: other_kernel<<<1, 64, 0, on>>>(memory); break;
  }
  return cudaGetLastError();
}

} // namespace cliff

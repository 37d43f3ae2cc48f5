// SPDX-License-Identifier: Apache-2.0
#include "cliff/kernels.hpp"

#include <cstdio>

namespace cliff {

namespace {

__global__ void print_kernel(const float* memory) {
  if (threadIdx.x == 0) printf("%f\n", static_cast<double>(memory[0]));
}

__global__ void allocate_kernel(float* memory) {
  void* room = malloc(64);
  if (room == nullptr) memory[threadIdx.x % 128] = 0.0f;
  free(room);
}

} // namespace

cudaError_t launch_talking(kernel which, float* memory, cudaStream_t on) {
  if (which == kernel::print)
    print_kernel<<<1, 32, 0, on>>>(memory);
  else
    allocate_kernel<<<1, 32, 0, on>>>(memory);
  return cudaGetLastError();
}

} // namespace cliff

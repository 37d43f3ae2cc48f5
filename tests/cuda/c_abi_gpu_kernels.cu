// SPDX-License-Identifier: Apache-2.0
#include "cuda/c_abi_gpu_kernels.hpp"

#include <gsched/cuda/notify/instrument.cuh>

namespace gsched::testing {

namespace {

__device__ void make_step(const std::uint32_t* in, std::uint32_t* out, std::uint32_t n,
                          std::uint32_t k, std::uint32_t spin) {
  for (std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
       i += gridDim.x * blockDim.x) {
    std::uint32_t v = in[i];
    for (std::uint32_t s = 0; s < spin; ++s) v = v * 1664525u + 1013904223u;
    out[i] = v ^ k;
  }
}

__global__ void step(const std::uint32_t* in, std::uint32_t* out, std::uint32_t n, std::uint32_t k,
                     std::uint32_t spin) {
  make_step(in, out, n, k, spin);
}

__global__ void reporting_step(cuda::report to, const std::uint32_t* in, std::uint32_t* out,
                               std::uint32_t n, std::uint32_t k, std::uint32_t spin) {
  GSCHED_INSTRUMENT(to);
  make_step(in, out, n, k, spin);
}

__global__ void for_ever(const std::uint32_t* flag, std::uint32_t* out) {
  while (*static_cast<const volatile std::uint32_t*>(flag) != 0xffffffffu) {
  }
  *out = 1;
}

__global__ void out_of_bounds(std::uint32_t* out) {
  reinterpret_cast<std::uint32_t*>(std::uintptr_t{0x10})[threadIdx.x] = 1; // no such memory
  *out = 1;
}

} // namespace

void launch_step(cudaStream_t s, const std::uint32_t* in, std::uint32_t* out, std::uint32_t n,
                 std::uint32_t k, std::uint32_t spin) {
  step<<<64, 128, 0, s>>>(in, out, n, k, spin);
}

void launch_reporting_step(cudaStream_t s, const std::uint32_t* in, std::uint32_t* out,
                           std::uint32_t n, std::uint32_t k, std::uint32_t spin) {
  reporting_step<<<64, 128, 0, s>>>({}, in, out, n, k, spin);
}

void launch_for_ever(cudaStream_t s, const std::uint32_t* flag, std::uint32_t* out) {
  for_ever<<<1, 1, 0, s>>>(flag, out);
}

void launch_out_of_bounds(cudaStream_t s, std::uint32_t* out) {
  out_of_bounds<<<1, 32, 0, s>>>(out);
}

} // namespace gsched::testing

// SPDX-License-Identifier: Apache-2.0
#include "common/cuda/built_in_kernels.hpp"

#include <gsched/cuda/error.hpp>

#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_reduce.cuh>

#include <algorithm>

namespace common {

namespace {

__global__ void saxpy_kernel(float a, const float* x, float* y, std::size_t n) {
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}

__global__ void tick_kernel(unsigned cycles) {
  const long long start = clock64();
  while (clock64() - start < cycles) {
  }
}

cudaError_t sort(void* scratch, std::size_t& bytes, const std::uint32_t* in, std::uint32_t* sorted,
                 std::size_t n, cudaStream_t stream) {
  return cub::DeviceRadixSort::SortKeys(scratch, bytes, in, sorted, n, 0, 32, stream);
}

cudaError_t add_up(void* scratch, std::size_t& bytes, const std::uint32_t* in, std::uint32_t* sum,
                   std::size_t n, cudaStream_t stream) {
  return cub::DeviceReduce::Sum(scratch, bytes, in, sum, n, stream);
}

} // namespace

void saxpy(float a, const float* x, float* y, std::size_t n, cudaStream_t stream) {
  constexpr unsigned threads = 256;
  const auto blocks = static_cast<unsigned>((n + threads - 1) / threads);
  saxpy_kernel<<<blocks, threads, 0, stream>>>(a, x, y, n);
  gsched::cuda::check(cudaGetLastError(), "saxpy");
}

void tick(unsigned cycles, cudaStream_t stream) {
  tick_kernel<<<1, 1, 0, stream>>>(cycles);
  gsched::cuda::check(cudaGetLastError(), "tick");
}

std::size_t scratch_of_sort_and_sum(std::size_t n) {
  std::size_t for_sort = 0;
  std::size_t for_sum = 0;
  const std::uint32_t* in = nullptr;
  std::uint32_t* out = nullptr;
  gsched::cuda::check(sort(nullptr, for_sort, in, out, n, nullptr), "sort");
  gsched::cuda::check(add_up(nullptr, for_sum, in, out, n, nullptr), "sum");
  return std::max(for_sort, for_sum);
}

void sort_and_sum(void* scratch, std::size_t scratch_bytes, const std::uint32_t* in,
                  std::uint32_t* sorted, std::uint32_t* sum, std::size_t n, cudaStream_t stream) {
  std::size_t bytes = scratch_bytes;
  gsched::cuda::check(sort(scratch, bytes, in, sorted, n, stream), "sort");
  bytes = scratch_bytes;
  gsched::cuda::check(add_up(scratch, bytes, sorted, sum, n, stream), "sum");
}

} // namespace common

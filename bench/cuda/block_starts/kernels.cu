// SPDX-License-Identifier: Apache-2.0
#include "block_starts/kernels.hpp"

#include <cuda_runtime.h>

namespace block_starts {

namespace {

__global__ void spin_and_copy(short_arguments a) {
  if (a.cycles > 0) {
    const long long start = clock64();
    while (static_cast<std::uint64_t>(clock64() - start) < a.cycles) {
    }
  }
  const auto* const from = static_cast<const float4*>(a.from);
  auto* const to = static_cast<float4*>(a.to);
  const std::uint32_t first = blockIdx.x * a.rows * blockDim.x + threadIdx.x;
  for (std::uint32_t r = 0; r < a.rows; ++r)
    to[(first + r * blockDim.x) & a.mask] = from[(first * 7 + r * blockDim.x) & a.mask];
}

} // namespace

const void* short_blocks() noexcept { return reinterpret_cast<const void*>(&spin_and_copy); }

} // namespace block_starts

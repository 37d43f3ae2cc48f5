// SPDX-License-Identifier: Apache-2.0
#include "block_starts/kernels.hpp"

#include <gsched/cuda/error.hpp>

#include <cuda_runtime.h>

#include <array>

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

__constant__ std::uint32_t constant_words[chain_words];
__device__ std::uint32_t sink;

__global__ void follow_chain(chain_arguments a) {
  __shared__ std::uint32_t words[chain_words];
  for (std::uint32_t i = threadIdx.x; i < chain_words; i += blockDim.x) words[i] = a.next[i];
  __syncthreads();
  std::uint32_t i = threadIdx.x;
  switch (a.what) {
  case chain_of::nothing:
    for (std::uint32_t k = 0; k < a.steps; ++k) i = i * 1664525u + 1013904223u;
    break;
  case chain_of::shared_memory:
    for (std::uint32_t k = 0; k < a.steps; ++k) i = words[i];
    break;
  case chain_of::constants:
    i = 0; // one word for the whole warp
    for (std::uint32_t k = 0; k < a.steps; ++k) i = constant_words[i];
    break;
  case chain_of::l1:
    for (std::uint32_t k = 0; k < a.steps; ++k) i = __ldca(a.next + i);
    break;
  case chain_of::l2:
    for (std::uint32_t k = 0; k < a.steps; ++k) i = __ldcg(a.next + i);
    break;
  }
  if (i == 0xffffffffu) sink = i; // never: the chain is needed
}

} // namespace

const void* chains() noexcept { return reinterpret_cast<const void*>(&follow_chain); }

void fill_constants() {
  std::array<std::uint32_t, chain_words> words{};
  for (std::uint32_t i = 0; i < chain_words; ++i) words[i] = after(i);
  gsched::cuda::check(cudaMemcpyToSymbol(constant_words, words.data(), sizeof words), "constants");
}

const void* short_blocks() noexcept { return reinterpret_cast<const void*>(&spin_and_copy); }

} // namespace block_starts

// SPDX-License-Identifier: Apache-2.0
#include "standing/kernels.hpp"

#include <cooperative_groups.h>

#include <cuda/atomic>

namespace standing {

namespace {

__device__ std::uint64_t global_ns() {
  std::uint64_t t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t)::"memory");
  return t;
}

/// All relaxed: only the words themselves pass between the host and the GPU.
__device__ std::uint32_t load(std::uint32_t& word) {
  return ::cuda::atomic_ref<std::uint32_t, ::cuda::thread_scope_system>(word).load(
      ::cuda::memory_order_relaxed);
}
__device__ void store(std::uint32_t& word, std::uint32_t value) {
  ::cuda::atomic_ref<std::uint32_t, ::cuda::thread_scope_system>(word).store(
      value, ::cuda::memory_order_relaxed);
}

__global__ void spin(std::uint64_t cycles) {
  const std::int64_t start = clock64();
  while (clock64() - start < static_cast<std::int64_t>(cycles)) {
  }
}

__global__ void gate(hold_line* line, std::uint32_t number) {
  const std::uint32_t hold = load(line->hold);
  if (hold == 0 || number + 1 < hold) return;
  std::uint32_t& standing = line->standing[number & 1];
  const std::uint64_t start = global_ns();
  store(standing, number + 1);
  while (load(line->hold) != 0 && global_ns() - start < longest_wait_ns) __nanosleep(100);
  store(standing, 0);
}

__global__ void mark(std::uint32_t* word) { store(*word, 1); }

__global__ void set_words(std::uint32_t* to, std::uint32_t count) {
  for (std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count;
       i += gridDim.x * blockDim.x)
    to[i] = 0;
}

__global__ void release(release_line* line, std::uint32_t* words, std::uint32_t count) {
  const std::uint64_t start = global_ns();
  store(line->ready, 1);
  while (load(line->open) == 0 && global_ns() - start < longest_wait_ns) __nanosleep(100);
  for (std::uint32_t i = 0; i < count; ++i) store(words[i], 0);
}

__global__ void cooperative_mark(std::uint32_t* word) {
  cooperative_groups::this_grid().sync();
  if (blockIdx.x == 0 && threadIdx.x == 0) store(*word, 1);
}

__global__ void timed_mark(std::uint32_t* word, std::uint32_t* count) {
  const std::uint64_t start = global_ns();
  while (global_ns() - start < 20'000) {
  }
  __syncthreads();
  if (threadIdx.x == 0 && atomicAdd(count, 1) == gridDim.x - 1) store(*word, 1);
}

template <int N>
__global__ void unused() {
  if (N < 0) __nanosleep(N);
}

template <class F>
const void* address(F* f) noexcept {
  return reinterpret_cast<const void*>(f);
}

} // namespace

kernels all_kernels() noexcept {
  return {address(&spin),       address(&gate),
          address(&mark),       address(&set_words),
          address(&release),    address(&cooperative_mark),
          address(&timed_mark), {address(&unused<0>), address(&unused<1>)}};
}

} // namespace standing

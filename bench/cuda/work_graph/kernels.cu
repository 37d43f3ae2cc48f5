// SPDX-License-Identifier: Apache-2.0
#include "kernels.hpp"

#include <cooperative_groups.h>

namespace work_graph {

namespace {

/// Bypasses the caches of an SM, which may hold values from before an earlier kernel ended.
__device__ std::uint32_t load(const std::uint32_t* from) {
  return *const_cast<const volatile std::uint32_t*>(from);
}
__device__ void store(std::uint32_t* to, std::uint32_t x) {
  *const_cast<volatile std::uint32_t*>(to) = x;
}

/// All threads of a block wait for that long.
__device__ void stay(std::uint64_t cycles) {
  __syncthreads();
  if (threadIdx.x == 0) {
    const long long from = clock64();
    while (static_cast<std::uint64_t>(clock64() - from) < cycles) {
    }
  }
  __syncthreads();
}

__device__ void meet(const node_work& w) {
#if __CUDA_ARCH__ >= 900
  if (w.triggers) asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  if (w.waits) asm volatile("griddepcontrol.wait;" ::: "memory");
#else
  static_cast<void>(w);
#endif
}

/// The salt, through the last words of the block's shared memory.
__device__ std::uint32_t salt_of(const node_work& w) {
  extern __shared__ std::uint32_t mine[];
  if (w.shared_words < blockDim.x) return w.salt;
  mine[w.shared_words - 1 - threadIdx.x] = w.salt;
  __syncthreads();
  return mine[w.shared_words - blockDim.x + threadIdx.x];
}

__device__ std::uint32_t cluster_size() {
#if __CUDA_ARCH__ >= 900
  return cooperative_groups::this_cluster().num_blocks();
#else
  return 1;
#endif
}

/// The words that a thread processes, one after another.
struct share {
  std::uint32_t first = blockIdx.x * blockDim.x + threadIdx.x;
  std::uint32_t step = gridDim.x * blockDim.x;
};

__global__ void __launch_bounds__(1024) compute(const __grid_constant__ node_work w) {
  meet(w);
  const std::uint32_t salt = salt_of(w);
  const std::uint32_t n = counted(w.words);
  const share mine;
  // A kernel that starts too early reads wrong words here; one that does not wait for the end of
  // this kernel reads these.
  for (std::uint32_t j = mine.first; j < n; j += mine.step) {
    std::uint32_t* const at = w.own + place(w.words, j);
    store(at, gathered(load(at), j, w.reads, w.count, load));
  }
  stay(w.cycles);
  const std::uint32_t cluster = cluster_size();
  for (std::uint32_t j = mine.first; j < n; j += mine.step) {
    std::uint32_t* const at = w.own + place(w.words, j);
    store(at, finished(load(at), j, salt, cluster));
  }
}

/// The same with a barrier of the whole grid between its halves.
__global__ void __launch_bounds__(1024) compute_together(const __grid_constant__ node_work w) {
  const std::uint32_t salt = salt_of(w);
  const std::uint32_t n = counted(w.words);
  const share mine;
  for (std::uint32_t j = mine.first; j < n; j += mine.step)
    store(w.between + j, gathered(load(w.own + place(w.words, j)), j, w.reads, w.count, load));
  stay(w.cycles);
  cooperative_groups::this_grid().sync();
  for (std::uint32_t j = mine.first; j < n; j += mine.step)
    store(w.own + place(w.words, j),
          finished(load(w.between + j), load(w.between + partner(j, n)), salt, 1));
}

} // namespace

const void* kernel_of(const node& n) noexcept {
  return n.cooperative ? reinterpret_cast<const void*>(compute_together)
                       : reinterpret_cast<const void*>(compute);
}

} // namespace work_graph

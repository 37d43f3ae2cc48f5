// SPDX-License-Identifier: Apache-2.0
#include "kernels.hpp"

#include <gsched/cuda/preempt/preempt.cuh>

namespace preemption_bench {

namespace {

constexpr unsigned threads = 256;
constexpr unsigned tile = 16;
constexpr unsigned side = 512;        ///< of the matrices
constexpr unsigned steps = 400;       ///< of the sum
constexpr unsigned sum_blocks = 1000; ///< more than fit at once, with those of in_place
constexpr unsigned in_place_blocks = 8000;

__device__ void count(std::uint32_t* where) {
  if ((threadIdx.x | threadIdx.y) == 0) atomicAdd(where, 1u);
}

__device__ void save(const result_memory& m, unsigned block, unsigned passes, float sum) {
  m.partial[block * blockDim.x + threadIdx.x] = sum;
  if (threadIdx.x == 0) m.passes[block] = passes;
}

/// Sums of which no part may be counted twice: the partial sum is saved.
__global__ void accumulate(cuda::preemption p, result_memory m) {
  GSCHED_PREEMPTIBLE_LATER(p);
  const unsigned at = gsched_block.x * blockDim.x + threadIdx.x;
  float sum = GSCHED_RESUMED() ? m.partial[at] : 0;
  unsigned i = GSCHED_RESUMED() ? m.passes[gsched_block.x] : 0;
  for (; i < steps; ++i) {
    sum = fmaf(sum, 0.999f, m.in[(at + i * 977u) % (sum_blocks * threads)]);
    GSCHED_CHECKPOINT(save(m, gsched_block.x, i + 1, sum));
  }
  m.out[at] = sum;
  count(m.ended + gsched_block.x);
}

/// Idempotent: a preempted block starts again.
__global__ void multiply(cuda::preemption p, result_memory m) {
  GSCHED_PREEMPTIBLE(p);
  __shared__ float left[tile][tile + 1];
  __shared__ float right[tile][tile + 1];
  const unsigned row = gsched_block.y * tile + threadIdx.y;
  const unsigned column = gsched_block.x * tile + threadIdx.x;
  float sum = 0;
  for (unsigned k = 0; k < side; k += tile) {
    left[threadIdx.y][threadIdx.x] = m.in[row * side + k + threadIdx.x];
    right[threadIdx.y][threadIdx.x] = m.in[(k + threadIdx.y) * side + column];
    __syncthreads();
    for (unsigned i = 0; i < tile; ++i)
      sum = fmaf(left[threadIdx.y][i], right[i][threadIdx.x], sum);
    __syncthreads();
    GSCHED_CHECKPOINT(); // of each warp; tiles contain only numbers
  }
  GSCHED_SYNC_CHECKPOINT(); // all threads do the rest, once
  m.out[row * side + column] = sum;
  count(m.ended + gsched_block.y * gridDim.x + gsched_block.x);
}

/// Overwrites its input: no block may run twice, nor be preempted once it has started.
__global__ void change_in_place(cuda::preemption p, result_memory m) {
  GSCHED_PREEMPTIBLE(p);
  const unsigned at = gsched_block.x * blockDim.x + threadIdx.x;
  for (unsigned i = 0; i < 20; ++i) m.out[at] = fmaf(m.out[at], 0.75f, m.in[at % (side * side)]);
  count(m.ended + gsched_block.x);
}

} // namespace

const char* name_of(kind k) noexcept {
  switch (k) {
  case kind::accumulating: return "accumulating, with saved state";
  case kind::multiplying: return "idempotent gemm";
  case kind::in_place: return "in place, between blocks";
  }
  return "";
}

unsigned blocks_of(kind k) noexcept {
  switch (k) {
  case kind::accumulating: return sum_blocks;
  case kind::multiplying: return side / tile * (side / tile);
  case kind::in_place: return in_place_blocks;
  }
  return 0;
}

std::size_t elements_of(kind k) noexcept { return std::size_t{blocks_of(k)} * threads; }

cuda::preemptible_launch make_result(kind k, const cuda::tenant& of, const result_memory& m) {
  cuda::call_shape shape;
  shape.grid = blocks_of(k);
  shape.block = threads;
  if (k == kind::accumulating)
    return cuda::make_preemptible(of, "accumulate", shape, accumulate,
                                  cuda::preemption::at_checkpoints(), m);
  if (k == kind::in_place)
    return cuda::make_preemptible(of, "change_in_place", shape, change_in_place,
                                  cuda::preemption::between_blocks(), m);
  shape.grid = dim3(side / tile, side / tile);
  shape.block = dim3(tile, tile);
  return cuda::make_preemptible(of, "multiply", shape, multiply, cuda::preemption::at_checkpoints(),
                                m);
}

} // namespace preemption_bench

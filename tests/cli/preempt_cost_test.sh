#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the lines of preempt.cuh add to a kernel, by the compiler's own words: no local memory, no
# spills, at most four registers more, shared memory only where there are checkpoints, and then one
# word; and nothing at all under GSCHED_NO_PREEMPTION.
#
# Kernels that use fewer than 26 registers count as such: no GPU holds fewer threads for those that
# it takes to find a block in a list, as there are 32 for each where an SM is full of threads.
. "${GSCHED_SOURCE_DIR:?}/tests/cli/kernel_cost.sh"

cat > kernels.cu <<'CU'
#ifdef PLAIN
#include <gsched/cuda/preempt/preemption.hpp>
#define BEGIN(p)                                                                                   \
  static_cast<void>(p);                                                                            \
  const uint3 gsched_block = blockIdx
#define BEGIN_LATER(p) BEGIN(p)
#define POINT(...) static_cast<void>(0)
#define MEET(...) __syncthreads()
#else
#include <gsched/cuda/preempt/preempt.cuh>
#define BEGIN(p) GSCHED_PREEMPTIBLE(p)
#define BEGIN_LATER(p) GSCHED_PREEMPTIBLE_LATER(p)
#define POINT(...) GSCHED_CHECKPOINT(__VA_ARGS__)
#define MEET(...) GSCHED_SYNC_CHECKPOINT(__VA_ARGS__)
#endif
using gsched::cuda::preemption;

extern "C" __global__ void empty(preemption p, float* y) {
  BEGIN(p);
  if (y != nullptr) y[gsched_block.x] = 0;
}

extern "C" __global__ void saxpy(preemption p, float a, const float* x, float* y, int n) {
  BEGIN(p);
  const int i = gsched_block.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}

extern "C" __global__ void chain(preemption p, const float* x, float* y, float* kept, int n) {
  BEGIN_LATER(p);
  const int at = gsched_block.x * blockDim.x + threadIdx.x;
  float sum = x[at];
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < 100; ++j) sum = sum * 0.999f + 1;
    POINT(kept[at] = sum);
  }
  y[at] = sum;
}

// A tile of 8 x 8 sums in each thread.
extern "C" __global__ void large(preemption p, const float* a, const float* b, float* c, int n) {
  BEGIN(p);
  float sum[8][8] = {};
  const int row = (gsched_block.y * blockDim.y + threadIdx.y) * 8;
  const int column = (gsched_block.x * blockDim.x + threadIdx.x) * 8;
  for (int k = 0; k < n; ++k) {
    float left[8], right[8];
    for (int i = 0; i < 8; ++i) left[i] = a[(row + i) * n + k];
    for (int i = 0; i < 8; ++i) right[i] = b[k * n + column + i];
    for (int i = 0; i < 8; ++i)
      for (int j = 0; j < 8; ++j) sum[i][j] += left[i] * right[j];
    MEET();
  }
  for (int i = 0; i < 8; ++i)
    for (int j = 0; j < 8; ++j) c[(row + i) * n + column + j] = sum[i][j];
}

// Registers for full occupancy and no more.
extern "C" __global__ void __launch_bounds__(1024, 2)
    full(preemption p, const float* x, float* y, int n) {
  BEGIN(p);
  float v[18];
  const int i = gsched_block.x * blockDim.x + threadIdx.x;
#pragma unroll
  for (int k = 0; k < 18; ++k) v[k] = x[i + k * n];
  for (int round = 0; round < n; ++round) {
#pragma unroll
    for (int k = 0; k < 18; ++k) v[k] = v[k] * v[(k + 7) % 18] + v[(k + 3) % 18];
    POINT();
  }
#pragma unroll
  for (int k = 0; k < 18; ++k) y[i + k * n] = v[k];
}
CU

translate leaving GSCHED_NO_PREEMPTION

python3 - <<'PY'
from kernel_cost import compare

checkpoints = ["chain", "large", "full"]  # of which the warps tell one another
compare("leaving", "GSCHED_NO_PREEMPTION", ["empty", "saxpy", *checkpoints], 26,
        lambda kernel: 4 if kernel in checkpoints else 0)
PY

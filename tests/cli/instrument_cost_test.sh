#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What GSCHED_INSTRUMENT adds to a kernel, by the compiler's own words: no local memory, no spills,
# at most four registers more; and nothing at all under GSCHED_NO_INSTRUMENT.
#
# Kernels that use fewer than ten registers count as ten: to put a word together takes some, and no
# GPU holds fewer threads for them, as there are 32 for each where an SM is full of threads.
. "${GSCHED_SOURCE_DIR:?}/tests/cli/kernel_cost.sh"

cat > kernels.cu <<'CU'
#ifdef PLAIN
#include <gsched/cuda/notify/report.hpp>
#define FIRST_LINE(to)
#else
#include <gsched/cuda/notify/instrument.cuh>
#define FIRST_LINE(to) GSCHED_INSTRUMENT(to)
#endif
using gsched::cuda::report;

extern "C" __global__ void empty(report to) { FIRST_LINE(to); }

extern "C" __global__ void saxpy(report to, float a, const float* x, float* y, int n) {
  FIRST_LINE(to);
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}

extern "C" __global__ void reduction(report to, const float* x, float* sums, int n) {
  FIRST_LINE(to);
  extern __shared__ float part[];
  float sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    sum += x[i];
  part[threadIdx.x] = sum;
  __syncthreads();
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = part[0];
}

extern "C" __global__ void early_returns(report to, const float* x, float* y, int n) {
  FIRST_LINE(to);
  __shared__ float tile[1024];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float v = x[i];
  if (v < 0) {
    y[i] = 0;
    return;
  }
  tile[threadIdx.x] = v;
  __syncthreads();
  y[i] = tile[threadIdx.x] + tile[threadIdx.x / 2];
}

// A tile of 8 x 8 sums in each thread.
template <int Step>
__device__ __forceinline__ void multiply(const float* a, const float* b, float* c, int n) {
  float sum[8][8] = {};
  const int row = (blockIdx.y * blockDim.y + threadIdx.y) * 8;
  const int column = (blockIdx.x * blockDim.x + threadIdx.x) * 8;
  for (int k = 0; k < n; k += Step) {
    float left[8], right[8];
    for (int i = 0; i < 8; ++i) left[i] = a[(row + i) * n + k];
    for (int i = 0; i < 8; ++i) right[i] = b[k * n + column + i];
    for (int i = 0; i < 8; ++i)
      for (int j = 0; j < 8; ++j) sum[i][j] += left[i] * right[j];
  }
  for (int i = 0; i < 8; ++i)
    for (int j = 0; j < 8; ++j) c[(row + i) * n + column + j] = sum[i][j];
}

extern "C" __global__ void large(report to, const float* a, const float* b, float* c, int n) {
  FIRST_LINE(to);
  multiply<1>(a, b, c, n);
}

// As many registers as fit for full occupancy: one more held throughout would spill.
extern "C" __global__ void __launch_bounds__(1024, 2)
    full(report to, const float* x, float* y, int n) {
  FIRST_LINE(to);
  float v[20];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll
  for (int k = 0; k < 20; ++k) v[k] = x[i + k * n];
  for (int round = 0; round < n; ++round) {
#pragma unroll
    for (int k = 0; k < 20; ++k) v[k] = v[k] * v[(k + 7) % 20] + v[(k + 3) % 20];
  }
#pragma unroll
  for (int k = 0; k < 20; ++k) y[i + k * n] = v[k];
}
CU

translate instrumented GSCHED_NO_INSTRUMENT

python3 - <<'PY'
from kernel_cost import compare

compare("instrumented", "GSCHED_NO_INSTRUMENT",
        ["empty", "saxpy", "reduction", "early_returns", "large", "full"], 10, lambda _: 16)
PY

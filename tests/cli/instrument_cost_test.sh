#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What GSCHED_INSTRUMENT adds to a kernel, by the compiler's own words: no local memory, no spills,
# at most four registers more; and nothing at all under GSCHED_NO_INSTRUMENT.
#
# Kernels that use fewer than ten registers count as ten: to put a word together takes some, and no
# GPU holds fewer threads for them, as there are 32 for each where an SM is full of threads.
set -u
source_dir=${GSCHED_SOURCE_DIR:?}
nvcc=${CUDACXX:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
if ! [ -x "$nvcc" ]; then
  echo "no nvcc here: passed over"
  exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

cat > kernels.cu <<'CU'
#ifdef PLAIN
#include <gsched/cuda/report.hpp>
#define FIRST_LINE(to)
#else
#include <gsched/cuda/instrument.cuh>
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

compile() { # compile NAME ARGS...: one translation, within a time limit
  local name=$1
  shift
  timeout 250 "$nvcc" -std=c++20 -O3 -I"$source_dir/include" -I"$source_dir/cuda/include" "$@" \
    kernels.cu > "$name.log" 2>&1 || { echo "nvcc failed: $*"; cat "$name.log"; exit 1; }
}

for arch in 80 90; do
  compile instrumented.$arch -arch=sm_$arch -Xptxas -v -cubin -o instrumented.$arch.cubin &
  compile plain.$arch -arch=sm_$arch -Xptxas -v -DPLAIN -cubin -o plain.$arch.cubin &
  wait -n || exit 1
  wait -n || exit 1
  compile none.$arch -arch=sm_$arch -DGSCHED_NO_INSTRUMENT -ptx -o none.$arch.ptx
  compile plain_ptx.$arch -arch=sm_$arch -DPLAIN -ptx -o plain.$arch.ptx
done

python3 - <<'PY'
import re, sys

kernels = ["empty", "saxpy", "reduction", "early_returns", "large", "full"]
failures = []

def costs(path):
    """Of each kernel: registers, bytes of stack, spills, shared memory."""
    found = {}
    name = None
    for line in open(path):
        if m := re.search(r"Compiling entry function '(\w+)'", line):
            name = m[1]
            found[name] = {"local": 0}
        if m := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads",
                          line):
            found[name]["local"] += sum(map(int, m.groups()))
        if m := re.search(r"Used (\d+) registers", line):
            found[name]["registers"] = int(m[1])
            shared = re.search(r"(\d+) bytes smem", line)
            found[name]["shared"] = int(shared[1]) if shared else 0
            found[name]["local"] += sum(map(int, re.findall(r"(\d+) bytes lmem", line)))
    return found

def code(path):
    """PTX without what depends on the file's name: comments and blank lines."""
    lines = (line.split("//")[0].rstrip() for line in open(path))
    return [line for line in lines if line.strip()]

print(f"{'kernel':<14} {'arch':<6} {'registers':>9} {'plain':>6} {'shared':>7} {'plain':>6} {'local':>6}")
for arch in ("80", "90"):
    instrumented, plain = (costs(f"{which}.{arch}.log") for which in ("instrumented", "plain"))
    for kernel in kernels:
        if kernel not in instrumented or kernel not in plain:
            sys.exit(f"sm_{arch}: ptxas said nothing of {kernel}")
        i, p = instrumented[kernel], plain[kernel]
        print(f"{kernel:<14} sm_{arch:<3} {i['registers']:>9} {p['registers']:>6} "
              f"{i['shared']:>7} {p['shared']:>6} {i['local']:>6}")
        if i["registers"] > max(p["registers"], 10) + 4:
            failures.append(f"sm_{arch} {kernel}: {i['registers']} registers, plain {p['registers']}")
        if i["local"] > p["local"]:
            failures.append(f"sm_{arch} {kernel}: {i['local']} bytes of local memory")
        if i["shared"] > p["shared"] + 16:
            failures.append(f"sm_{arch} {kernel}: {i['shared']} bytes of shared memory")
    if code(f"none.{arch}.ptx") != code(f"plain.{arch}.ptx"):
        failures.append(f"sm_{arch}: PTX under GSCHED_NO_INSTRUMENT is not the plain kernels'")
    if f"sm_{arch}" not in "".join(code(f"none.{arch}.ptx")):
        failures.append(f"sm_{arch}: no PTX to compare")
for failure in failures:
    print("FAILED:", failure)
sys.exit(1 if failures else 0)
PY

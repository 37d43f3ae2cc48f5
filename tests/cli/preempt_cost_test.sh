#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the lines of preempt.cuh add to a kernel, by the compiler's own words: no local memory, no
# spills, at most four registers more, shared memory only where there are checkpoints, and then one
# word; and nothing at all under GSCHED_NO_PREEMPTION.
#
# Kernels that use fewer than 26 registers count as such: no GPU holds fewer threads for those that
# it takes to find a block in a list, as there are 32 for each where an SM is full of threads.
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
#include <gsched/cuda/preemption.hpp>
#define BEGIN(p)                                                                                   \
  static_cast<void>(p);                                                                            \
  const uint3 gsched_block = blockIdx
#define BEGIN_LATER(p) BEGIN(p)
#define POINT(...) static_cast<void>(0)
#define MEET(...) __syncthreads()
#else
#include <gsched/cuda/preempt.cuh>
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

compile() { # compile NAME ARGS...: one translation, within a time limit
  local name=$1
  shift
  timeout 250 "$nvcc" -std=c++20 -O3 -I"$source_dir/include" -I"$source_dir/cuda/include" "$@" \
    kernels.cu > "$name.log" 2>&1 || { echo "nvcc failed: $*"; cat "$name.log"; exit 1; }
}

for arch in 80 90; do
  compile leaving.$arch -arch=sm_$arch -Xptxas -v -cubin -o leaving.$arch.cubin
  compile plain.$arch -arch=sm_$arch -Xptxas -v -DPLAIN -cubin -o plain.$arch.cubin
  compile none.$arch -arch=sm_$arch -DGSCHED_NO_PREEMPTION -ptx -o none.$arch.ptx
  compile plain_ptx.$arch -arch=sm_$arch -DPLAIN -ptx -o plain.$arch.ptx
done

python3 - <<'PY'
import re, sys

kernels = ["empty", "saxpy", "chain", "large", "full"]
checkpoints = ["chain", "large", "full"]  # of which the warps tell one another
failures = []

def costs(path):
    """Of each kernel: registers, bytes of stack and spills, shared memory."""
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
    return found

def code(path):
    """PTX without comments and blank lines."""
    lines = (line.split("//")[0].rstrip() for line in open(path))
    return [line for line in lines if line.strip()]

print(f"{'kernel':<8} {'arch':<6} {'registers':>9} {'plain':>6} {'shared':>7} {'local':>6}")
for arch in ("80", "90"):
    leaving, plain = (costs(f"{which}.{arch}.log") for which in ("leaving", "plain"))
    for kernel in kernels:
        if kernel not in leaving or kernel not in plain:
            sys.exit(f"sm_{arch}: ptxas said nothing of {kernel}")
        l, p = leaving[kernel], plain[kernel]
        print(f"{kernel:<8} sm_{arch:<3} {l['registers']:>9} {p['registers']:>6} {l['shared']:>7} "
              f"{l['local']:>6}")
        if l["registers"] > max(p["registers"], 26) + 4:
            failures.append(f"sm_{arch} {kernel}: {l['registers']} registers, plain {p['registers']}")
        if l["local"] > p["local"]:
            failures.append(f"sm_{arch} {kernel}: {l['local']} bytes of local memory")
        if l["shared"] > p["shared"] + (4 if kernel in checkpoints else 0):
            failures.append(f"sm_{arch} {kernel}: {l['shared']} bytes of shared memory")
    if code(f"none.{arch}.ptx") != code(f"plain.{arch}.ptx"):
        failures.append(f"sm_{arch}: PTX under GSCHED_NO_PREEMPTION is not the plain kernels'")
    if f"sm_{arch}" not in "".join(code(f"none.{arch}.ptx")):
        failures.append(f"sm_{arch}: no PTX to compare")
for failure in failures:
    print("FAILED:", failure)
sys.exit(1 if failures else 0)
PY

// SPDX-License-Identifier: Apache-2.0
#include "kernels.hpp"

#include <gsched/cuda/preempt/preempt.cuh>

namespace preemption_bench {

namespace {

constexpr unsigned threads = 128;
constexpr unsigned tile = 16;
constexpr unsigned copy_threads = 256;

/// 400 dependent operations take about 1 us.
__device__ __forceinline__ float work(float x) {
#pragma unroll 100 // passes long enough that the address of the loop has no effect
  for (int i = 0; i < 400; ++i) x = fmaf(x, 0.999f, 0.5f);
  return x;
}

#define NAME(loop) loop##_plain
#define BEGIN(p)                                                                                   \
  static_cast<void>(p);                                                                            \
  const uint3 gsched_block = blockIdx
#define POINT() static_cast<void>(0)
#define EVERY() static_cast<void>(0)
#define MEET() __syncthreads()
#include "costing_loops.inc"
#undef NAME
#undef BEGIN

#define NAME(loop) loop##_preamble
#define BEGIN(p) GSCHED_PREEMPTIBLE(p)
#include "costing_loops.inc"
#undef NAME
#undef POINT
#undef EVERY
#undef MEET

#define NAME(loop) loop##_checkpoints
#define POINT() GSCHED_CHECKPOINT()
#define EVERY() GSCHED_CHECKPOINT_EVERY(8)
#define MEET()                                                                                     \
  __syncthreads();                                                                                 \
  GSCHED_CHECKPOINT()
#include "costing_loops.inc"
#undef NAME
#undef BEGIN

#define NAME(loop) loop##_later
#define BEGIN(p) GSCHED_PREEMPTIBLE_LATER(p)
#include "costing_loops.inc"
#undef NAME
#undef BEGIN
#undef POINT
#undef EVERY
#undef MEET

#define NAME(loop) loop##_together
#define BEGIN(p) GSCHED_PREEMPTIBLE(p)
#define POINT() GSCHED_SYNC_CHECKPOINT()
#define EVERY() GSCHED_CHECKPOINT_EVERY(8, static_cast<void>(0))
#define MEET() GSCHED_SYNC_CHECKPOINT()
#include "costing_loops.inc"

/// One of the five kernels, and its parameter.
template <class Kernel>
Kernel pick(variant v, Kernel plain, Kernel preamble, Kernel checkpoints, Kernel together,
            Kernel later) {
  switch (v) {
  case variant::plain: return plain;
  case variant::preamble:
  case variant::preamble_resumable: return preamble;
  case variant::unfilled:
  case variant::checkpoints: return checkpoints;
  case variant::together: return together;
  case variant::later: return later;
  }
  return plain;
}

#define PICK(loop)                                                                                 \
  pick(v, loop##_plain, loop##_preamble, loop##_checkpoints, loop##_together, loop##_later)

} // namespace

const char* name_of(variant v) noexcept {
  switch (v) {
  case variant::plain: return "plain";
  case variant::unfilled: return "not filled in";
  case variant::preamble: return "preamble";
  case variant::preamble_resumable: return "preamble of a resumed launch";
  case variant::checkpoints: return "preamble, checkpoints";
  case variant::together: return "preamble, for all threads";
  case variant::later: return "checkpoints decide";
  }
  return "";
}

cudaGraphExec_t make_costing(const cost_kernel& k, variant v, unsigned launches,
                             const cuda::preemption& filled, cudaStream_t stream) {
  cuda::preemption p = filled;
  if (v == variant::plain || v == variant::unfilled) p = {};
  p.resumes = v == variant::preamble_resumable;
  cudaGraph_t graph = nullptr;
  cuda::check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
  for (unsigned i = 0; i < launches; ++i) {
    if (k.what == loop::chain) PICK(chain)<<<k.blocks, threads, 0, stream>>>(p, k.passes, k.data);
    if (k.what == loop::gemm) {
      constexpr std::size_t matrix = std::size_t{gemm_side} * gemm_side;
      PICK(gemm)<<<dim3(gemm_side / tile, gemm_side / tile), dim3(tile, tile), 0, stream>>>(
          p, k.data, k.data + matrix, k.data + 2 * matrix);
    }
    if (k.what == loop::copy) {
      const std::size_t n = k.elements / 8;
      PICK(copy)<<<k.blocks, copy_threads, 0, stream>>>(p, reinterpret_cast<const float4*>(k.data),
                                                        reinterpret_cast<float4*>(k.data) + n, n);
    }
  }
  cuda::check(cudaStreamEndCapture(stream, &graph), "capture");
  cudaGraphExec_t exec = nullptr;
  cuda::check(cudaGraphInstantiate(&exec, graph, 0), "graph");
  cuda::check(cudaGraphDestroy(graph), "graph");
  return exec;
}

} // namespace preemption_bench

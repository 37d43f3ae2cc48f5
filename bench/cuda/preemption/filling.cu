// SPDX-License-Identifier: Apache-2.0
#include "kernels.hpp"

#include <gsched/cuda/preempt/preempt.cuh>

namespace preemption_bench {

namespace {

constexpr unsigned threads = 512;

__device__ void tell(std::uint32_t* where) {
  asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(where), "r"(1u) : "memory");
}

__device__ unsigned long long now() {
  unsigned long long t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}

__device__ void stay(std::int64_t start, std::uint64_t cycles) {
  if (threadIdx.x < 32)
    while (static_cast<std::uint64_t>(clock64() - start) < cycles) {
    }
}

__device__ void save(std::uint64_t* where, std::uint64_t cycles) {
  if (threadIdx.x == 0) *where = cycles;
}

__global__ void __launch_bounds__(threads, 4)
    filling(cuda::preemption p, std::uint64_t cycles, std::uint64_t step, books b) {
  GSCHED_PREEMPTIBLE(p);
  const std::int64_t start = clock64();
  if (threadIdx.x == 0) {
    if (blockIdx.x == 0) tell(b.running);
    if (b.ended[gsched_block.x] != 0) atomicAdd(b.rerun, 1u);
  }
  const std::uint64_t stays = GSCHED_RESUMED() ? b.saved[gsched_block.x] : cycles;
  for (std::uint64_t until = step; until < stays; until += step) {
    stay(start, until);
    GSCHED_CHECKPOINT(save(b.saved + gsched_block.x, stays - until));
  }
  stay(start, stays);
  __syncthreads();
  if (threadIdx.x == 0) ++b.ended[gsched_block.x];
}

__global__ void __launch_bounds__(threads, 4)
    filling_by_hand(by_hand h, std::uint64_t cycles, std::uint64_t step, std::uint32_t* running) {
  const std::int64_t start = clock64();
  if (threadIdx.x == 0 && blockIdx.x == 0) tell(running);
  std::uint32_t asked = 0;
  for (std::uint64_t until = step; until < cycles; until += step) {
    stay(start, until);
    if (h.flag == nullptr) continue;
    if (__syncthreads_or(static_cast<int>(asked)) != 0) {
      if (threadIdx.x != 0) return;
      if (h.times != nullptr) {
        const unsigned long long t = now();
        atomicMin(&h.times->first, t);
        atomicMax(&h.times->last, t);
        if (atomicAdd(h.left, 1u) != gridDim.x - 1) return;
        *h.left = 0;
        h.times->listed = now();
        return;
      }
      if (atomicAdd(h.left, 1u) != gridDim.x - 1) return;
      *h.left = 0;
      tell(h.gone);
      return;
    }
    if (threadIdx.x == 0)
      asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(asked) : "l"(h.flag));
  }
  stay(start, cycles);
  __syncthreads();
}

__global__ void tell_behind(by_hand h) {
  h.times->behind = now();
  __threadfence_system();
  tell(h.gone);
}

__global__ void tell_time(std::uint64_t* time, std::uint64_t cycles) {
  const auto store = [&](unsigned long long t) {
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(time), "l"(t) : "memory");
  };
  const std::int64_t start = clock64();
  while (static_cast<std::uint64_t>(clock64() - start) < cycles) {
    store(now());
    __nanosleep(200);
  }
  store(~0ull);
}

__global__ void urgent(std::uint32_t* started, std::uint32_t* running) {
  if (threadIdx.x != 0) return;
  if (atomicAdd(started, 1u) != gridDim.x - 1) return;
  *started = 0;
  tell(running);
}

template <class... P, class... A>
cudaGraphExec_t one(const char* name, unsigned blocks, unsigned block, void (*kernel)(P...),
                    A... arguments) {
  cuda::call_shape shape;
  shape.grid = blocks;
  shape.block = block;
  return cuda::detail::with_call_graph(
      name, shape,
      [&](CUgraph graph) {
        cudaGraphExec_t exec = nullptr;
        cuda::check(cudaGraphInstantiate(&exec, graph, 0), name);
        return exec;
      },
      kernel, arguments...);
}

} // namespace

cuda::preemptible_launch make_filling(const cuda::tenant& of, unsigned blocks, std::uint64_t cycles,
                                      std::uint64_t step, const books& b) {
  cuda::call_shape shape;
  shape.grid = blocks;
  shape.block = threads;
  return cuda::make_preemptible(of, "filling", shape, filling, cuda::preemption::at_checkpoints(),
                                cycles, step, b);
}

cudaGraphExec_t make_filling_by_hand(unsigned blocks, std::uint64_t cycles, std::uint64_t step,
                                     const by_hand& h, std::uint32_t* running) {
  return one("filling", blocks, threads, filling_by_hand, h, cycles, step, running);
}

cudaGraphExec_t make_filling_then_tell(unsigned blocks, std::uint64_t cycles, std::uint64_t step,
                                       const by_hand& h, std::uint32_t* running) {
  cudaStream_t on = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  cuda::check(cudaStreamCreateWithFlags(&on, cudaStreamNonBlocking), "stream");
  cuda::check(cudaStreamBeginCapture(on, cudaStreamCaptureModeThreadLocal), "capture");
  filling_by_hand<<<blocks, threads, 0, on>>>(h, cycles, step, running);
  tell_behind<<<1, 1, 0, on>>>(h);
  cuda::check(cudaStreamEndCapture(on, &graph), "capture");
  cuda::check(cudaGraphInstantiate(&exec, graph, 0), "graph");
  cuda::check(cudaGraphDestroy(graph), "graph");
  cuda::check(cudaStreamDestroy(on), "stream");
  return exec;
}

cudaGraphExec_t make_clock(std::uint64_t* time, std::uint64_t cycles) {
  return one("clock", 1, 1, tell_time, time, cycles);
}

cudaGraphExec_t make_urgent(unsigned blocks, std::uint32_t* started, std::uint32_t* running) {
  return one("urgent", blocks, threads, urgent, started, running);
}

} // namespace preemption_bench

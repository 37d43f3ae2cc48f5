// SPDX-License-Identifier: Apache-2.0
#include "calibrate/kernels.hpp"

#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/notify/instrument.cuh>
#include <gsched/cuda/preempt/preempt.cuh>

#include <cuda/atomic>

#include <cstddef>
#include <cstring>

namespace calibrate {

namespace {

using word = cuda::atomic_ref<std::uint64_t, cuda::thread_scope_system>;

__device__ void wait_cycles(std::uint64_t cycles) {
  const long long start = clock64();
  while (static_cast<std::uint64_t>(clock64() - start) < cycles) {
  }
}

__device__ std::uint64_t now_ns() {
  std::uint64_t t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  return t;
}

__global__ void spin_kernel(std::uint64_t cycles) {
  if (cycles > 0) wait_cycles(cycles);
}

__global__ void mark_kernel(std::uint64_t cycles, std::uint64_t* count, std::uint64_t* seen) {
  if (threadIdx.x != 0) return;
  if (cycles > 0) wait_cycles(cycles);
  const std::uint64_t n = ++*count;                      // launches of it run in order
  word(*seen).store(n, cuda::std::memory_order_relaxed); // the word publishes nothing else
}

__global__ void answer_kernel(std::uint64_t* ask, std::uint64_t* answer, std::uint64_t rounds,
                              std::uint64_t most_cycles) {
  if (threadIdx.x != 0) return;
  const long long start = clock64();
  for (std::uint64_t i = 1; i <= rounds; ++i) {
    while (word(*ask).load(cuda::std::memory_order_relaxed) < i)
      if (static_cast<std::uint64_t>(clock64() - start) > most_cycles) return;
    word(*answer).store(i, cuda::std::memory_order_relaxed);
  }
}

__global__ void reporting_kernel(gsched::cuda::report to, std::uint64_t cycles) {
  GSCHED_INSTRUMENT(to);
  wait_cycles(cycles);
}

__global__ void preemptible_kernel(gsched::cuda::preemption preempt, std::uint64_t cycles,
                                   std::uint64_t step) {
  GSCHED_PREEMPTIBLE(preempt);
  for (std::uint64_t stayed = 0; stayed < cycles; stayed += step) {
    wait_cycles(step);
    GSCHED_CHECKPOINT();
  }
}

__global__ void counted_kernel(starts* at, std::uint64_t ns) {
  if (threadIdx.x != 0) return;
  atomicAdd(&at->now, 1u);
  const std::uint64_t start = now_ns();
  while (now_ns() - start < ns) __nanosleep(1000);
  atomicCAS(&at->at_first_end, 0u, atomicAdd(&at->now, 0u));
}

CUfunction function_of(const void* kernel) {
  cudaFunction_t f = nullptr;
  gsched::cuda::check(cudaGetFuncBySymbol(&f, kernel), "calibration kernels");
  return f;
}

std::uint64_t pointer(const void* p) { return reinterpret_cast<std::uint64_t>(p); }

} // namespace

node spin(std::uint64_t cycles) {
  return {function_of(reinterpret_cast<const void*>(&spin_kernel)), {cycles}};
}

node mark(std::uint64_t cycles, std::uint64_t* count, std::uint64_t* seen) {
  return {function_of(reinterpret_cast<const void*>(&mark_kernel)),
          {cycles, pointer(count), pointer(seen)}};
}

node answer(const std::uint64_t* ask, std::uint64_t* answer, std::uint64_t rounds,
            std::uint64_t most_cycles) {
  return {function_of(reinterpret_cast<const void*>(&answer_kernel)),
          {pointer(ask), pointer(answer), rounds, most_cycles}};
}

node preemptible(std::uint64_t cycles, std::uint64_t step) {
  const auto parameter = gsched::cuda::preemption::at_checkpoints();
  constexpr std::uint8_t words = sizeof parameter / sizeof(std::uint64_t);
  node n{
      function_of(reinterpret_cast<const void*>(&preemptible_kernel)), {}, {0, words, words + 1}};
  static_assert(words + 1 < std::tuple_size_v<decltype(n.arguments)>);
  std::memcpy(n.arguments.data(), &parameter, sizeof parameter);
  n.arguments[words] = cycles;
  n.arguments[words + 1] = step;
  return n;
}

node reporting(const gsched::cuda::report& to, std::uint64_t cycles) {
  constexpr std::size_t words = sizeof to / sizeof(std::uint64_t);
  node n{function_of(reinterpret_cast<const void*>(&reporting_kernel)), {}, {0, words}};
  static_assert(words < std::tuple_size_v<decltype(n.arguments)>);
  std::memcpy(n.arguments.data(), &to, sizeof to);
  n.arguments[words] = cycles;
  return n;
}

CUgraph make_chain(std::span<const node> nodes) {
  const gsched::cuda::driver_functions& cu = gsched::cuda::driver();
  CUgraph graph = nullptr;
  gsched::cuda::check(cu.cuGraphCreate(&graph, 0), "a graph");
  CUgraphNode last = nullptr;
  for (const node& n : nodes) {
    auto values = n.arguments;
    void* arguments[4];
    for (std::size_t i = 0; i < 4; ++i) arguments[i] = &values[n.begins[i]];
    CUDA_KERNEL_NODE_PARAMS p{};
    p.func = n.function;
    p.gridDimX = n.blocks;
    p.gridDimY = p.gridDimZ = 1;
    p.blockDimX = 32;
    p.blockDimY = p.blockDimZ = 1;
    p.kernelParams = arguments;
    CUgraphNode added = nullptr;
    const CUresult result = cu.cuGraphAddKernelNode(
        &added, graph, last != nullptr ? &last : nullptr, last != nullptr ? 1 : 0, &p);
    if (result != CUDA_SUCCESS) cu.cuGraphDestroy(graph);
    gsched::cuda::check(result, "a kernel of a graph");
    last = added;
  }
  return graph;
}

cudaError_t launch_empty(cudaStream_t on) {
  spin_kernel<<<1, 32, 0, on>>>(0);
  return cudaGetLastError();
}

cudaError_t launch_counted(cudaStream_t on, starts* at, std::uint64_t ns) {
  counted_kernel<<<1, 32, 0, on>>>(at, ns);
  return cudaGetLastError();
}

} // namespace calibrate

// SPDX-License-Identifier: Apache-2.0
#include "preempt/preemption_marker.hpp"

#include "graph/end/graph_end.hpp"

#include <gsched/cuda/error.hpp>

#include <cuda_runtime_api.h>

#include <cuda/atomic>

#include <cstdint>

namespace gsched::cuda {

namespace {

constexpr unsigned threads = 128;
constexpr std::uint32_t none = 0xffff'ffff;

using system_word = ::cuda::atomic_ref<std::uint64_t, ::cuda::thread_scope_system>;

/// The first four words of a slot, for one load. All of their writers have ended.
struct alignas(16) slot_words {
  std::uint32_t preempted, begun, trouble, state;
};
static_assert(offsetof(preemption_slot, trouble) == 8 && offsetof(preemption_slot, state) == 12);

/// [M1] release, system scope -> acquire of the word by the host, which then launches graphs that
/// read the slots. The barrier orders the writes of the other threads before it.
__global__ void __launch_bounds__(threads)
    report_preempted(preemption_slot* slots, std::uint32_t n, std::uint64_t* word, bool publishes) {
  const auto words_of = [&](std::uint32_t i) { return reinterpret_cast<slot_words*>(slots + i); };
  __shared__ std::uint32_t first_preempted;
  __shared__ unsigned long long first_divergent; // operation << 32 | line
  std::uint32_t preempted = none;
  unsigned long long divergent = ~0ull;
  bool changed = false;
  if (threadIdx.x == 0) {
    first_preempted = none;
    first_divergent = ~0ull;
  }
  for (std::uint32_t i = threadIdx.x; i < n; i += threads) {
    const slot_words w = *words_of(i);
    if (w.preempted != 0 && preempted == none) preempted = i;
    if (w.trouble != 0 && divergent == ~0ull)
      divergent = static_cast<unsigned long long>(i) << 32 | w.trouble;
    changed |= (w.preempted | w.trouble | w.state) != 0;
  }
  if (!__syncthreads_or(changed)) { // the common case
    if (threadIdx.x != 0) return;
    if (publishes)
      system_word(*word).store(1, ::cuda::memory_order_release);
    else
      system_word(*word).store(1, ::cuda::memory_order_relaxed);
    return;
  }
  if (preempted != none) atomicMin(&first_preempted, preempted);
  if (divergent != ~0ull) atomicMin(&first_divergent, divergent);
  __syncthreads();
  std::uint64_t end = 1;
  if (first_preempted != none) end = preemption_end::word_of_preempted(first_preempted);
  if (first_divergent != ~0ull)
    end = preemption_end::word_of_divergent(static_cast<std::uint32_t>(first_divergent >> 32),
                                            static_cast<std::uint32_t>(first_divergent));
  for (std::uint32_t i = threadIdx.x; i < n; i += threads) {
    const slot_words w = *words_of(i);
    *words_of(i) = {
        0, 0, 0,
        state_after(w.state, w.preempted, w.begun != 0, slots[i].blocks, i > first_preempted)};
  }
  __syncthreads();
  if (threadIdx.x == 0) system_word(*word).store(end, ::cuda::memory_order_release); // [M1]
}

} // namespace

void add_preemption_marker(const driver_functions& cu, CUgraph graph, marker kind,
                           const end_word& to, const preemption_slots& slots, std::size_t first,
                           std::size_t last, CUcontext place) {
  preemption_slot* from = slots.data() + first;
  auto n = static_cast<std::uint32_t>(last - first);
  CUdeviceptr word = to.word;
  bool publishes = kind == marker::publishes;
  void* arguments[] = {&from, &n, &word, &publishes};
  cudaKernel_t kernel = nullptr;
  check(cudaGetKernel(&kernel, reinterpret_cast<const void*>(&report_preempted)),
        "kernel that ends a segment");
  CUDA_KERNEL_NODE_PARAMS k{};
  k.kern = reinterpret_cast<CUkernel>(kernel);
  k.ctx = place;
  k.gridDimX = k.gridDimY = k.gridDimZ = 1;
  k.blockDimX = threads;
  k.blockDimY = k.blockDimZ = 1;
  k.kernelParams = arguments;
  add_at_end(cu, graph, k);
}

} // namespace gsched::cuda

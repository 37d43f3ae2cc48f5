// SPDX-License-Identifier: Apache-2.0
#include "graph/gates/gate.hpp"

#include <gsched/cuda/error.hpp>

#include <cuda_runtime_api.h>

#include <cuda/atomic>

namespace gsched::cuda {

namespace {

template <class T>
using system_word = ::cuda::atomic_ref<T, ::cuda::thread_scope_system>;

__device__ std::uint64_t global_ns() {
  std::uint64_t t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t)::"memory");
  return t;
}

__device__ std::uint32_t hold_of(std::uint64_t order) { return order & gate_order::max_generation; }
__device__ std::uint32_t beat_of(std::uint64_t order) {
  return order >> 20 & gate_order::max_generation;
}
__device__ std::uint64_t lease_ns_of(std::uint64_t order) { return (order >> 40) * 1000; }

/// All accesses are relaxed: the words publish no other memory. The graph's edges order the kernels
/// behind the gate after its end.
__global__ void hold_graph(gate_line* line, std::uint32_t number) {
  constexpr auto relaxed = ::cuda::memory_order_relaxed;
  const system_word<std::uint64_t> order(line->order); // <- segment_graph::set_order
  std::uint64_t asked = order.load(relaxed);
  if (hold_of(asked) == 0) return;
  const system_word<std::uint32_t> expired(line->expired); // -> segment_graph::has_expired
  const system_word<std::uint64_t> closed(
      line->closed[number & 1]); // -> segment_graph::closed_gate
  std::uint32_t closed_for = 0;
  std::uint32_t beat = beat_of(asked);
  std::uint64_t since = global_ns();
  for (; hold_of(asked) != 0; asked = order.load(relaxed)) {
    const std::uint32_t hold = hold_of(asked);
    if (hold != closed_for) {
      if (expired.load(relaxed) == hold) break; // the lease of an earlier gate has expired
      closed.store(std::uint64_t{hold} << 32 | number, relaxed);
      closed_for = hold;
    }
    const std::uint64_t now = global_ns();
    if (beat_of(asked) != beat) {
      beat = beat_of(asked);
      since = now;
    } else if (lease_ns_of(asked) != 0 && now - since > lease_ns_of(asked)) {
      expired.store(hold, relaxed);
      break;
    }
    __nanosleep(100);
  }
  if (closed_for != 0) closed.store(0, relaxed);
}

__global__ void join() {}

CUkernel kernel_of(const void* function) {
  cudaKernel_t kernel = nullptr;
  check(cudaGetKernel(&kernel, function), "kernel of a gate");
  return reinterpret_cast<CUkernel>(kernel);
}

} // namespace

CUkernel gate_kernel() { return kernel_of(reinterpret_cast<const void*>(&hold_graph)); }
CUkernel join_kernel() { return kernel_of(reinterpret_cast<const void*>(&join)); }

} // namespace gsched::cuda

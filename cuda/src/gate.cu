// SPDX-License-Identifier: Apache-2.0
#include "gate.hpp"

#include <gsched/cuda/error.hpp>

#include <cuda_runtime_api.h>

#include <cuda/atomic>

namespace gsched::cuda {

namespace {

template <class T>
using system_word = ::cuda::atomic_ref<T, ::cuda::thread_scope_system>;

/// All relaxed: nothing but the words themselves is handed on by them. What the gate keeps back
/// waits for its end, which is an edge of the graph.
__global__ void stand(gate_line* line, std::uint32_t number) {
  constexpr auto relaxed = ::cuda::memory_order_relaxed;
  const system_word<std::uint32_t> hold(line->hold); // <- device::yield and resume
  std::uint32_t asked = hold.load(relaxed);
  if (asked == 0) return;
  const system_word<std::uint64_t> standing(line->standing[number & 1]); // -> device::poll
  for (std::uint32_t told = 0; asked != 0; asked = hold.load(relaxed)) {
    if (asked != told) standing.store(std::uint64_t{asked} << 32 | number, relaxed);
    told = asked;
    __nanosleep(100);
  }
  standing.store(0, relaxed);
}

} // namespace

CUkernel gate_kernel() {
  cudaKernel_t kernel = nullptr;
  check(cudaGetKernel(&kernel, reinterpret_cast<const void*>(&stand)), "kernel of a gate");
  return reinterpret_cast<CUkernel>(kernel);
}

} // namespace gsched::cuda

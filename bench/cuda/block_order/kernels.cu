// SPDX-License-Identifier: Apache-2.0
#include "block_order/kernels.hpp"

namespace block_order {

namespace {

__device__ std::uint64_t now_ns() {
  std::uint64_t ns;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns)::"memory");
  return ns;
}

template <bool Second>
__global__ void timed(timed_arguments a) {
  const std::uint64_t start = now_ns();
  if (a.has_started != nullptr && blockIdx.x == 0 && threadIdx.x == 0) {
    *static_cast<volatile std::uint32_t*>(a.has_started) = 1;
    __threadfence_system();
  }
  while (now_ns() - start < a.ns) {
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  std::uint32_t sm;
  asm volatile("mov.u32 %0, %smid;" : "=r"(sm));
  a.records[blockIdx.x] = {start, now_ns(), sm};
}

} // namespace

const void* timed_kernel(bool second) noexcept {
  return second ? reinterpret_cast<const void*>(&timed<true>)
                : reinterpret_cast<const void*>(&timed<false>);
}

} // namespace block_order

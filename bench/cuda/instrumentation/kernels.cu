// SPDX-License-Identifier: Apache-2.0
#include "rivals.cuh"

#include <cstdint>

namespace instrumentation {

namespace {

__device__ __forceinline__ void stay(std::uint32_t cycles) {
  if (cycles == 0) return;
  const std::int64_t start = clock64();
  while (clock64() - start < static_cast<std::int64_t>(cycles)) {
  }
}

template <way How>
__global__ void kernel(report to, std::uint32_t* exits, std::uint32_t cycles) {
  const block<How> here(to, exits);
  stay(cycles);
}

template <>
__global__ void kernel<way::library>(report to, std::uint32_t*, std::uint32_t cycles) {
  GSCHED_INSTRUMENT(to);
  stay(cycles);
}

template <>
__global__ void kernel<way::carved>(report to, std::uint32_t*, std::uint32_t cycles) {
  GSCHED_INSTRUMENT(to);
  stay(cycles);
}

template <>
__global__ void kernel<way::by_thread>(report to, std::uint32_t*, std::uint32_t cycles) {
  __shared__ std::uint32_t exits;
  const block<way::by_thread> here(to, exits);
  stay(cycles);
}

template <>
__global__ void kernel<way::relaxed>(report to, std::uint32_t*, std::uint32_t cycles) {
  __shared__ std::uint32_t exits;
  const block<way::relaxed> here(to, exits);
  stay(cycles);
}

template <>
__global__ void kernel<way::unordered>(report to, std::uint32_t*, std::uint32_t cycles) {
  __shared__ std::uint32_t exits;
  const block<way::unordered> here(to, exits);
  stay(cycles);
}

template <>
__global__ void kernel<way::shared>(report to, std::uint32_t*, std::uint32_t cycles) {
  __shared__ volatile std::uint32_t exits;
  if (to.counters != nullptr) exits = cycles;
  stay(cycles);
}

template <>
__global__ void kernel<way::fenced>(report to, std::uint32_t*, std::uint32_t cycles) {
  __shared__ std::uint32_t exits;
  const block<way::fenced> here(to, exits);
  stay(cycles);
}

} // namespace

cudaError_t prepare() {
  // A block takes 1 KiB for itself and what is declared: 64 KiB hold 32 of them.
  return cudaFuncSetAttribute(kernel<way::carved>, cudaFuncAttributePreferredSharedMemoryCarveout,
                              30);
}

cudaError_t launch(way how, unsigned blocks, unsigned threads, cudaStream_t stream,
                   const report& to, std::uint32_t* exits, std::uint32_t cycles) {
  switch (how) {
#define GSCHED_CASE(name)                                                                          \
  case way::name: kernel<way::name><<<blocks, threads, 0, stream>>>(to, exits, cycles); break;
    GSCHED_CASE(plain)
    GSCHED_CASE(library)
    GSCHED_CASE(carved)
    GSCHED_CASE(by_thread)
    GSCHED_CASE(relaxed)
    GSCHED_CASE(unordered)
    GSCHED_CASE(shared)
    GSCHED_CASE(global)
    GSCHED_CASE(end_barrier)
    GSCHED_CASE(fenced)
#undef GSCHED_CASE
  }
  return cudaPeekAtLastError();
}

} // namespace instrumentation

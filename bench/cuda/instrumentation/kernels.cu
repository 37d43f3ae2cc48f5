// SPDX-License-Identifier: Apache-2.0
#include "rivals.cuh"

#include <cstdint>

namespace instrumentation {

namespace {

/// Sleeps while it waits. Polling the clock takes 6 instructions in 34 cycles: from six warps on,
/// as with 12 blocks of 128 threads on an SM, the issue slots of a scheduler are saturated, which
/// would delay arriving blocks instead of the measured operation.
__device__ __forceinline__ void stay(const duration& d) {
  if (d.cycles == 0) return;
  const std::int64_t start = clock64();
  while (clock64() - start < static_cast<std::int64_t>(d.cycles))
    if (d.nap_ns != 0) __nanosleep(d.nap_ns);
}

template <way How>
__global__ void kernel(report to, std::uint32_t* exits, duration d) {
  const block<How> here(to, exits);
  stay(d);
}

#define GSCHED_LIBRARY(name)                                                                       \
  template <>                                                                                      \
  __global__ void kernel<way::name>(report to, std::uint32_t*, duration d) {                       \
    GSCHED_INSTRUMENT(to);                                                                         \
    stay(d);                                                                                       \
  }
GSCHED_LIBRARY(library)
GSCHED_LIBRARY(carved)
#undef GSCHED_LIBRARY

template <>
__global__ void kernel<way::shared>(report to, std::uint32_t*, duration d) {
  __shared__ volatile std::uint32_t exits;
  if (to.counters != nullptr) exits = d.cycles;
  stay(d);
}

#define GSCHED_SHARED(name, how)                                                                   \
  template <>                                                                                      \
  __global__ void kernel<way::name>(report to, std::uint32_t*, duration d) {                       \
    __shared__ std::uint32_t exits;                                                                \
    const shared_block<how> here(to, exits);                                                       \
    stay(d);                                                                                       \
  }
GSCHED_SHARED(by_warp, exits_by_warp)
GSCHED_SHARED(merged, one_counter)
GSCHED_SHARED(relaxed, relaxed_exits)
GSCHED_SHARED(unordered, not_ordered)
GSCHED_SHARED(fenced, with_fences)
#undef GSCHED_SHARED

} // namespace

cudaError_t prepare() {
  // A block takes 1 KiB for itself and what it declares: 64 KiB hold 32 of them.
  return cudaFuncSetAttribute(kernel<way::carved>, cudaFuncAttributePreferredSharedMemoryCarveout,
                              30);
}

cudaError_t prepare_merged(const report& to) {
  gsched::cuda::launch_counters counters;
  const cudaError_t e = cudaMemcpy(&counters, to.counters, sizeof counters, cudaMemcpyDeviceToHost);
  if (e != cudaSuccess) return e;
  counters.ended = merged::none_ended(static_cast<std::uint32_t>(counters.started >> 32));
  return cudaMemcpy(to.counters, &counters, sizeof counters, cudaMemcpyHostToDevice);
}

cudaError_t launch(way how, unsigned blocks, unsigned threads, cudaStream_t stream,
                   const report& to, std::uint32_t* exits, const duration& d) {
  switch (how) {
#define GSCHED_CASE(name)                                                                          \
  case way::name: kernel<way::name><<<blocks, threads, 0, stream>>>(to, exits, d); break;
    GSCHED_CASE(plain)
    GSCHED_CASE(library)
    GSCHED_CASE(carved)
    GSCHED_CASE(by_warp)
    GSCHED_CASE(merged)
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

// SPDX-License-Identifier: Apache-2.0
#include "stand_in_kernels.hpp"

#if __has_include(<gsched/cuda/instrument.cuh>)
#include <gsched/cuda/instrument.cuh>
#else
#define GSCHED_INSTRUMENT(r) static_cast<void>(r)
#endif

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace gsched::cuda {

namespace {

constexpr std::uint32_t least = 32;
constexpr std::uint32_t step = 8; ///< of 32 threads each: what an SM gives registers out in

/// That many values alive at once: the loads come before the stores, and neither may be moved.
template <std::size_t... Is>
__device__ __forceinline__ void hold(std::uint32_t* at, std::index_sequence<Is...>) {
  std::uint32_t value[sizeof...(Is)];
  (..., [&] {
    asm volatile("ld.volatile.global.u32 %0, [%1+%2];"
                 : "=r"(value[Is])
                 : "l"(at), "n"(4 * Is)
                 : "memory");
  }());
  (..., [&] {
    asm volatile("st.volatile.global.u32 [%0+%1], %2;" ::"l"(at), "n"(4 * (sizeof...(Is) + Is)),
                 "r"(value[Is])
                 : "memory");
  }());
}

/// Registers are allocated for the whole kernel by the place that needs most of them, also if it is
/// never reached: so they cost no time.
template <std::uint32_t Registers>
__global__ void __maxnreg__(Registers)
    stand_in(report to, std::uint64_t cycles, std::uint32_t* never) {
  GSCHED_INSTRUMENT(to);
  const std::int64_t start = clock64();
  if (never != nullptr) hold(never, std::make_index_sequence<Registers - step>{});
  // One warp watches the clock; the barrier keeps the others, and with them the block, in place.
  const std::uint32_t thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  if (thread < 32)
    while (static_cast<std::uint64_t>(clock64() - start) < cycles) {
    }
  __syncthreads();
}

template <std::size_t... Is>
auto table(std::index_sequence<Is...>) {
  return std::array{stand_in_kernel{reinterpret_cast<const void*>(&stand_in<least + step * Is>),
                                    least + step * static_cast<std::uint32_t>(Is)}...,
                    stand_in_kernel{reinterpret_cast<const void*>(&stand_in<255>), 255}};
}

} // namespace

std::span<const stand_in_kernel> stand_in_kernels() noexcept {
  static const auto all = table(std::make_index_sequence<(256 - least) / step>{});
  return all;
}

} // namespace gsched::cuda

// SPDX-License-Identifier: Apache-2.0
#include "stand_in/stand_in_kernels.hpp"

#include "hold_registers.cuh"

#include <gsched/cuda/notify/instrument.cuh>
#include <gsched/cuda/preempt/preempt.cuh>

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace gsched::cuda {

namespace {

constexpr std::uint32_t least = 32;
constexpr std::uint32_t step = 8; ///< allocation unit of registers of a thread

__device__ __forceinline__ std::uint32_t linear_index(const uint3& block) {
  return block.x + gridDim.x * (block.y + gridDim.y * block.z);
}

__device__ __forceinline__ void save(std::uint64_t* where, std::uint32_t thread,
                                     std::uint64_t value) {
  if (thread == 0) *where = value;
}

/// A kernel gets registers for its most demanding code, even if that never runs; so the registers
/// cost no time.
template <std::uint32_t Registers>
__global__ void __maxnreg__(Registers) stand_in(report to, preemption preempt, std::uint64_t cycles,
                                                std::uint64_t* saved, std::uint32_t* never) {
  GSCHED_INSTRUMENT(to);
  if (never != nullptr) hold_registers(never, std::make_index_sequence<Registers - step>{});
  const std::int64_t start = clock64();
  GSCHED_PREEMPTIBLE(preempt);
  const std::uint32_t thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  std::uint64_t* const mine = saved + linear_index(gsched_block);
  const std::uint64_t stays = GSCHED_RESUMED() ? *mine : cycles;
  // Half of the time between checkpoints, since exiting takes two; a cycle is shorter than 1 ns.
  const std::uint64_t pass = saved != nullptr ? preempt.checkpoint_ns : stays;
  for (std::uint64_t until = pass;; until += pass) {
    if (until > stays) until = stays;
    // One warp polls the clock; the barrier keeps the others, and with them the block, waiting.
    if (thread < 32)
      while (static_cast<std::uint64_t>(clock64() - start) < until) {
      }
    if (until == stays) break;
    GSCHED_CHECKPOINT(save(mine, thread, stays - until));
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

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels.hpp"

#include <gsched/cuda/instrument.cuh>

#include <cstdint>

/// Other ways to do what GSCHED_INSTRUMENT does, for grids of one dimension.
namespace instrumentation {

namespace library = gsched::cuda::detail;
using gsched::cuda::report;

/// Nothing, for the plain kernel.
template <way>
struct block {
  __device__ block(const report&, std::uint32_t*) {}
};

/// The counter of exits is in device memory, where it is zero from the start: no barrier, but each
/// warp that exits goes to L2 and back, and each launch needs room for a counter a block.
template <>
struct block<way::global> {
  __device__ __forceinline__ block(const report& to, std::uint32_t* counters)
      : to_(to), exits_(counters) {
    if (to_.counters != nullptr && threadIdx.x == 0)
      library::report_start<library::this_gpu>(to_, threadIdx.x);
  }
  __device__ __forceinline__ ~block() {
    if (to_.counters != nullptr) {
      std::uint32_t before;
      asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;"
                   : "=r"(before)
                   : "l"(exits_ + blockIdx.x), "r"(1)
                   : "memory");
      if (before + 1 == blockDim.x) {
        exits_[blockIdx.x] = 0;
        library::report_end<library::this_gpu>(to_, before >> 31);
      }
    }
    asm volatile("exit;");
    __builtin_unreachable();
  }
  const report& to_;
  std::uint32_t* exits_;
};

template <>
struct block<way::end_barrier> {
  __device__ __forceinline__ block(const report& to, std::uint32_t*) : to_(to) {
    if (to_.counters != nullptr && threadIdx.x == 0)
      library::report_start<library::this_gpu>(to_, threadIdx.x);
  }
  __device__ __forceinline__ ~block() {
    if (to_.counters == nullptr) return;
    __syncthreads();
    if (threadIdx.x == 0) library::report_end<library::this_gpu>(to_, threadIdx.x);
  }
  const report& to_;
};

/// Each thread adds to the block's exits by itself.
template <>
struct block<way::by_thread> {
  __device__ __forceinline__ block(const report& to, std::uint32_t& exits)
      : to_(to), exits_(exits) {
    if (to_.counters == nullptr) return;
    if (threadIdx.x == 0) exits_ = 0;
    __syncthreads();
    if (threadIdx.x == 0) library::report_start<library::this_gpu>(to_, threadIdx.x);
  }
  __device__ __forceinline__ ~block() {
    if (to_.counters != nullptr) {
      const std::uint32_t before = library::count_exits(exits_, 1);
      if (before + 1 == blockDim.x) library::report_end<library::this_gpu>(to_, before >> 31);
    }
    asm volatile("exit;");
    __builtin_unreachable();
  }
  const report& to_;
  std::uint32_t& exits_;
};

template <>
struct block<way::relaxed> {
  __device__ __forceinline__ block(const report& to, std::uint32_t& exits)
      : to_(to), exits_(exits) {
    if (to_.counters == nullptr) return;
    if (threadIdx.x == 0) exits_ = 0;
    __syncthreads();
    if (threadIdx.x == 0) library::report_start<library::this_gpu>(to_, threadIdx.x);
  }
  __device__ __forceinline__ ~block() {
    if (to_.counters != nullptr) count();
    asm volatile("exit;");
    __builtin_unreachable();
  }
  __device__ __forceinline__ void count() {
    std::uint32_t together;
    std::uint32_t below;
    asm volatile("activemask.b32 %0;" : "=r"(together));
    asm volatile("mov.u32 %0, %%lanemask_lt;" : "=r"(below));
    if ((together & below) != 0) return;
    const auto n = static_cast<std::uint32_t>(__popc(together));
    std::uint32_t before;
    asm volatile("atom.relaxed.cta.shared.add.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(&exits_))), "r"(n));
    if (before + n == blockDim.x) library::report_end<library::this_gpu>(to_, before >> 31);
  }
  const report& to_;
  std::uint32_t& exits_;
};

/// What ends would cost if a reader put them after their starts: nobody says what is covered, and
/// nobody waits for it.
struct unordered_start : library::this_gpu {
  static __device__ __forceinline__ void add_only(std::uint64_t*, std::uint64_t) {}
};
struct unordered_end : library::this_gpu {
  static __device__ __forceinline__ std::uint64_t load(const std::uint64_t*) { return 0; }
};

template <>
struct block<way::unordered> {
  __device__ __forceinline__ block(const report& to, std::uint32_t& exits)
      : to_(to), exits_(exits) {
    if (to_.counters == nullptr) return;
    if (threadIdx.x == 0) exits_ = 0;
    __syncthreads();
    if (threadIdx.x == 0) library::report_start<unordered_start>(to_, threadIdx.x);
  }
  __device__ __forceinline__ ~block() {
    if (to_.counters != nullptr) {
      std::uint32_t zero;
      if (library::is_last_exit(exits_, zero)) library::report_end<unordered_end>(to_, zero);
    }
    asm volatile("exit;");
    __builtin_unreachable();
  }
  const report& to_;
  std::uint32_t& exits_;
};

/// The same counts in the same order, with a fence before each word: for the whole system, so that
/// a word publishes what its block wrote, and before each claim.
template <>
struct block<way::fenced> {
  __device__ __forceinline__ block(const report& to, std::uint32_t& exits)
      : to_(to), exits_(exits) {
    if (to_.counters == nullptr) return;
    if (threadIdx.x == 0) exits_ = 0;
    __syncthreads();
    if (threadIdx.x != 0) return;
    __threadfence();
    library::report_start<library::this_gpu>(to_, threadIdx.x);
    __threadfence();
  }
  __device__ __forceinline__ ~block() {
    if (to_.counters != nullptr) {
      std::uint32_t zero;
      if (library::is_last_exit(exits_, zero)) {
        __threadfence_system();
        library::report_end<library::this_gpu>(to_, zero);
      }
    }
    asm volatile("exit;");
    __builtin_unreachable();
  }
  const report& to_;
  std::uint32_t& exits_;
};

} // namespace instrumentation

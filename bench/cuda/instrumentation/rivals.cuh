// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels.hpp"
#include "merged.cuh"

#include <gsched/cuda/notify/instrument.cuh>

#include <cstdint>

/// Alternatives to GSCHED_INSTRUMENT, for one-dimensional grids.
namespace instrumentation {

namespace library = gsched::cuda::detail;
using gsched::cuda::report;

/// No reports, for the plain kernel.
template <way>
struct block {
  __device__ block(const report&, std::uint32_t*) {}
};

/// The counter of exits is in device memory, where it starts at zero: no barrier, but each exiting
/// warp makes a request to L2, and each launch needs a counter for each block.
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

/// A counter of exits in shared memory, as in the library; How selects the variant.
template <class How>
struct shared_block {
  __device__ __forceinline__ shared_block(const report& to, std::uint32_t& exits)
      : to_(to), exits_(exits) {
    if (to_.counters == nullptr) return;
    if (threadIdx.x == 0) exits_ = 0;
    __syncthreads();
    if (threadIdx.x == 0) How::start(to_);
  }
  __device__ __forceinline__ ~shared_block() {
    if (to_.counters != nullptr) {
      std::uint32_t zero;
      if (How::is_last_exit(exits_, zero)) How::end(to_, zero);
    }
    asm volatile("exit;");
    __builtin_unreachable();
  }
  const report& to_;
  std::uint32_t& exits_;
};

/// The library's implementation.
struct as_library {
  static __device__ __forceinline__ void start(const report& to) {
    library::report_start<library::this_gpu>(to, threadIdx.x);
  }
  static __device__ __forceinline__ bool is_last_exit(std::uint32_t& exits, std::uint32_t& zero) {
    const std::uint32_t before = library::count_exit(exits);
    zero = before >> 31;
    return before + 1 == blockDim.x;
  }
  static __device__ __forceinline__ void end(const report& to, std::uint32_t zero) {
    library::report_end<library::this_gpu>(to, zero);
  }
};

/// The lowest of the threads of a warp that exit together counts them, with one addition.
struct exits_by_warp : as_library {
  static __device__ __forceinline__ bool is_last_exit(std::uint32_t& exits, std::uint32_t& zero) {
    std::uint32_t together;
    std::uint32_t below;
    asm volatile("activemask.b32 %0;" : "=r"(together));
    asm volatile("mov.u32 %0, %%lanemask_lt;" : "=r"(below));
    if ((together & below) != 0) return false;
    const auto n = static_cast<std::uint32_t>(__popc(together));
    std::uint32_t before;
    asm volatile("atom.acq_rel.cta.shared.add.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(&exits))), "r"(n)
                 : "memory");
    zero = before >> 31;
    return before + n == blockDim.x;
  }
};

/// One word holds the ends and the claimed starts: merged.cuh.
struct one_counter : as_library {
  static __device__ __forceinline__ void start(const report& to) {
    library::report_start<merged::start_machine>(to, threadIdx.x);
  }
  static __device__ __forceinline__ void end(const report& to, std::uint32_t zero) {
    merged::end(to, zero);
  }
};

/// Exits are counted without order: the word of a start may follow that of the end.
struct relaxed_exits : as_library {
  static __device__ __forceinline__ bool is_last_exit(std::uint32_t& exits, std::uint32_t& zero) {
    std::uint32_t before;
    asm volatile("atom.relaxed.cta.shared.add.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(&exits))), "r"(1));
    zero = before >> 31;
    return before + 1 == blockDim.x;
  }
};

/// The cost of ends if a reader ordered them behind their starts: the start is not published, and
/// not waited for.
struct not_ordered : as_library {
  struct start_machine : library::this_gpu {
    static __device__ __forceinline__ void add_only(std::uint64_t*, std::uint64_t) {}
  };
  struct end_machine : library::this_gpu {
    static __device__ __forceinline__ std::uint32_t load_lower(const std::uint64_t*) { return ~0u; }
  };
  static __device__ __forceinline__ void start(const report& to) {
    library::report_start<start_machine>(to, threadIdx.x);
  }
  static __device__ __forceinline__ void end(const report& to, std::uint32_t zero) {
    library::report_end<end_machine>(to, zero);
  }
};

/// The same counts in the same order, with a fence before each word: system-wide, so that a word
/// publishes the block's writes; and before each claim.
struct with_fences : as_library {
  static __device__ __forceinline__ void start(const report& to) {
    __threadfence();
    as_library::start(to);
    __threadfence();
  }
  static __device__ __forceinline__ void end(const report& to, std::uint32_t zero) {
    __threadfence_system();
    as_library::end(to, zero);
  }
};

} // namespace instrumentation

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/detail/block_reports.hpp>
#include <gsched/cuda/report.hpp>

#include <cstdint>

/// The first line of a kernel that reports where and when its blocks run:
///
///   __global__ void scale(gsched::cuda::report report, float* x, float by) {
///     GSCHED_INSTRUMENT(report);
///     ...
///
/// From there on each block is counted as it starts and as the last of its threads returns, and
/// words go into the notification ring (notification_ring.hpp): one for every block, or one for
/// every report::group blocks. Threads may return where and when they like, one by one, while
/// others wait at barriers. All of them pass this line, before anything else.
///
/// Under GSCHED_NO_INSTRUMENT it is nothing, and the kernel is the plain one.
///
/// Source   Paella, SOSP 2023, doi:10.1145/3600006.3613163, section 4.1 and figure 6.
/// Differs  no barrier at a block's end, which would hang where threads have returned early; a word
///          of an end never comes before those of the starts that it counts.
/// Errors   a thread that leaves otherwise than by returning (exit in assembly) is not counted, and
///          its block never ends.
/// Cost     four bytes of shared memory; no local memory; up to four registers more where a kernel
///          has ten or more. A start, and an end, is one round trip to L2 for thread 0 (the last
///          thread) and another for who reports a group. Kernels that report nothing pay for one
///          test of a parameter at either end.
#ifdef GSCHED_NO_INSTRUMENT
#define GSCHED_INSTRUMENT(report) static_cast<void>(report)
#else
#define GSCHED_INSTRUMENT(report)                                                                  \
  __shared__ unsigned gsched_exits_;                                                               \
  const ::gsched::cuda::detail::instrumented_block gsched_block_ { report, gsched_exits_ }
#endif

namespace gsched::cuda::detail {

#define GSCHED_DEVICE __device__ __forceinline__

/// What report_start and report_end ask of a machine: this GPU.
///
/// Atomics of device scope, relaxed: each word is all that its writer has to say. ptxas makes one
/// elected lane of a warp run an atomic add whose operand is uniform, at the price of registers and
/// shuffles; `by` comes from something that differs by lane as far as it can tell.
struct this_gpu {
  static GSCHED_DEVICE std::uint64_t add(std::uint64_t* where, std::uint64_t by) {
    std::uint64_t before;
    asm volatile("atom.relaxed.gpu.global.add.u64 %0, [%1], %2;"
                 : "=l"(before)
                 : "l"(where), "l"(by));
    return before;
  }

  static GSCHED_DEVICE void add_only(std::uint64_t* where, std::uint64_t by) {
    asm volatile("red.relaxed.gpu.global.add.u64 [%0], %1;" ::"l"(where), "l"(by));
  }

  static GSCHED_DEVICE std::uint64_t load(const std::uint64_t* where) {
    std::uint64_t value;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(where));
    return value;
  }

  static GSCHED_DEVICE std::uint32_t load_lower(const std::uint64_t* where) {
    std::uint32_t value;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(where));
    return value;
  }

  static GSCHED_DEVICE void store(std::uint64_t* where, std::uint64_t value) {
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(where), "l"(value));
  }

  static GSCHED_DEVICE void store_word(std::uint64_t* where, std::uint64_t word) {
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(where), "l"(word));
  }

  static GSCHED_DEVICE std::uint32_t this_sm() {
    std::uint32_t sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    return sm;
  }

  static GSCHED_DEVICE std::uint32_t last_of_grid() {
    return gridDim.x * gridDim.y * gridDim.z - 1;
  }
};

/// Adds one to the exits of this block. Release and acquire among the block: what was done before
/// any exit, such as taking a ticket for the block's start, is before what the last one does.
/// Each thread by itself: to see who is there and have one of a warp add for all takes longer.
GSCHED_DEVICE std::uint32_t count_exit(unsigned& exits) {
  std::uint32_t before;
  asm volatile("atom.acq_rel.cta.shared.add.u32 %0, [%1], %2;"
               : "=r"(before)
               : "r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(&exits))), "r"(1)
               : "memory");
  return before;
}

/// A thread's way through a kernel. Nothing of it stays in registers in between: it is read again
/// from the parameters.
class instrumented_block {
public:
  /// The barrier makes the counter of exits ready before anyone can exit. It is the kernel's first
  /// line, so all threads are there. To go without takes a counter in device memory for each block,
  /// and a trip to L2 for each warp that exits; bench/cuda/instrumentation measures both.
  GSCHED_DEVICE instrumented_block(const report& r, unsigned& exits) : report_(r), exits_(exits) {
    if (report_.counters == nullptr) return;
    const bool first = (threadIdx.x | threadIdx.y | threadIdx.z) == 0;
    if (first) exits_ = 0;
    __syncthreads();
    if (first) report_start<this_gpu>(report_, threadIdx.x);
  }

  /// Every return of the kernel gets a copy of this, which ends the thread by itself: were they to
  /// run on into a common end, the compiler could have a warp's threads meet there, and those that
  /// return early would wait for others that wait for them at a barrier.
  GSCHED_DEVICE ~instrumented_block() {
    if (report_.counters != nullptr) {
      const std::uint32_t before = count_exit(exits_);
      if (before + 1 == blockDim.x * blockDim.y * blockDim.z)
        report_end<this_gpu>(report_, before >> 31);
    }
    asm volatile("exit;");
    __builtin_unreachable();
  }

  instrumented_block(const instrumented_block&) = delete;
  instrumented_block& operator=(const instrumented_block&) = delete;

private:
  const report& report_;
  unsigned& exits_;
};

#undef GSCHED_DEVICE

} // namespace gsched::cuda::detail

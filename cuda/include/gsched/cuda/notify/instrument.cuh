// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/detail/block_reports.hpp>
#include <gsched/cuda/notify/report.hpp>

#include <cstdint>

/// The first line of a kernel that reports where and when its blocks run:
///
///   __global__ void scale(gsched::cuda::report report, float* x, float by) {
///     GSCHED_INSTRUMENT(report);
///     ...
///
/// The macro counts each block when it starts, and again when its last thread returns. It writes
/// words to the notification ring (notification_ring.hpp): one for each block, or one for each
/// report::group blocks. Threads may return at different times, also while others wait at a
/// barrier. All threads must execute this line before any other.
///
/// With GSCHED_NO_INSTRUMENT defined the macro is empty, and the kernel is the plain one.
///
/// Source   Paella, SOSP 2023, doi:10.1145/3600006.3613163, section 4.1 and figure 6.
/// Differs  there is no barrier at the end of a block, because it would hang where threads return
///          early. The word of an end never precedes the words of the starts that it counts.
/// Errors   a thread that ends by other means than return (exit in assembly) is not counted, and
///          its block is never reported as ended.
/// Cost     four bytes of shared memory; no local memory; up to four registers more where a kernel
///          has ten or more. A start costs one round trip to L2 for thread 0, an end one for the
///          last thread; the thread that reports a group pays another. Kernels that report nothing
///          pay one test of a parameter at the start and one at the end.
#ifdef GSCHED_NO_INSTRUMENT
#define GSCHED_INSTRUMENT(report) static_cast<void>(report)
#else
#define GSCHED_INSTRUMENT(report)                                                                  \
  __shared__ unsigned gsched_exits_;                                                               \
  const ::gsched::cuda::detail::instrumented_block gsched_block_ { report, gsched_exits_ }
#endif

namespace gsched::cuda::detail {

#define GSCHED_DEVICE __device__ __forceinline__

/// The machine of report_start and report_end: this GPU.
///
/// All atomics are relaxed at device scope: a word publishes nothing but itself. If the operand of
/// an atomic add is uniform, ptxas elects one lane of the warp to add for all, which costs
/// registers and shuffles. The callers therefore compute `by` from a value that ptxas must assume
/// to differ by lane.
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

/// Adds one to the exit counter of the block and returns the former value. Acquire and release at
/// block scope: everything before any exit, such as taking the ticket of the block's start, happens
/// before the last exit. Each thread adds by itself; electing one lane of a warp takes longer.
GSCHED_DEVICE std::uint32_t count_exit(unsigned& exits) {
  std::uint32_t before;
  asm volatile("atom.acq_rel.cta.shared.add.u32 %0, [%1], %2;"
               : "=r"(before)
               : "r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(&exits))), "r"(1)
               : "memory");
  return before;
}

/// Reports one thread's entry and exit. No state stays in registers in between: the destructor
/// reads the parameters again.
class instrumented_block {
public:
  /// The barrier initialises the exit counter before any thread can exit. This is the first line of
  /// the kernel, so all threads reach it. Without the barrier, each block would need a counter in
  /// device memory, and each exiting warp a trip to L2; bench/cuda/instrumentation measures both.
  GSCHED_DEVICE instrumented_block(const report& r, unsigned& exits) : report_(r), exits_(exits) {
    if (report_.counters == nullptr) return;
    const bool first = (threadIdx.x | threadIdx.y | threadIdx.z) == 0;
    if (first) exits_ = 0;
    __syncthreads();
    if (first) report_start<this_gpu>(report_, threadIdx.x);
  }

  /// The compiler places a copy of this at every return, and each copy ends the thread. With a
  /// common exit, the compiler could make the threads of a warp reconverge there: threads that
  /// return early would wait for threads that wait for them at a barrier.
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

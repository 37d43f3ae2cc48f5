// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/detail/preempt_block.cuh>
#include <gsched/cuda/detail/preempt_check.cuh>
#include <gsched/cuda/preempt/preemption.hpp>

#include <cstdint>

/// Kernels that yield the GPU on request, and later run only the blocks that have not ended:
///
///   __global__ void dot(gsched::cuda::preemption p, const float* x, int n, float* sums) {
///     GSCHED_PREEMPTIBLE(p);
///     float* const mine = sums + gsched_block.x * blockDim.x + threadIdx.x;
///     int i = 0;
///     float sum = 0;
///     if (GSCHED_RESUMED()) ...                 // restores the saved i and sum
///     for (; i < n; ++i) {
///       sum += ...
///       GSCHED_CHECKPOINT(save(i + 1, sum));
///     }
///     *mine = sum;
///   }
///
/// GSCHED_PREEMPTIBLE(p): the first line, except for GSCHED_INSTRUMENT. All threads execute it. It
/// declares gsched_block, which replaces blockIdx; gridDim does not change. If the flag is set, the
/// block returns from the kernel with all its threads, and runs in a later launch.
///
/// GSCHED_PREEMPTIBLE_LATER(p): the same, but the block does not wait for the flag's value. It acts
/// on the value at its first checkpoint and saves nothing there. Make that a checkpoint of all
/// threads, before the block writes anything but shared memory: in a kernel without loops, a
/// GSCHED_SYNC_CHECKPOINT() between its loads and its stores. If the code before it takes longer
/// than a trip to L2, preemption is free.
///
/// GSCHED_CHECKPOINT(): the threads of a warp reach it together. If the flag was set, the warp
/// returns from the kernel. The other warps of the block return at a checkpoint of theirs, which
/// may be in another pass of the loop, or run to the end; the block later restarts from its
/// beginning. So the kernel must not depend on the stores of the interrupted run, and the missing
/// stores of the warps that exited must do no harm: a value in shared memory may be used as a
/// number, but not as an address. If the code after a loop must not run twice, put a
/// GSCHED_SYNC_CHECKPOINT() before it. __syncthreads() does not wait for threads that have exited.
/// A named barrier or an mbarrier does; such loops need GSCHED_SYNC_CHECKPOINT().
///
/// GSCHED_CHECKPOINT(save...) and GSCHED_SYNC_CHECKPOINT(save...): all threads of the block reach
/// it together, except those of warps that have exited. If the flag was set, all of them run the
/// statement, if there is one, and return from the kernel. Without a statement the block later
/// restarts from its beginning, so the kernel must not depend on the stores of the interrupted run.
/// GSCHED_SYNC_CHECKPOINT replaces a __syncthreads() that the kernel needs.
///
/// The value tested at a checkpoint is the one that was requested at the previous checkpoint, or on
/// the kernel's first line, so that no thread waits for it. The first warp reads the flag, and
/// signals the other warps when it exits. A block whose warps exit independently has exited by its
/// third checkpoint after the flag was set, others by the second. If the first warp of a block has
/// ended, the others run to their end.
///
/// GSCHED_CHECKPOINT_EVERY(n, save...): GSCHED_CHECKPOINT at every n-th pass.
/// GSCHED_RESUMED(): whether this block has saved progress.
///
/// A kernel that is preempted between blocks (preemption::between_blocks(), or
/// restrict_preemptibility) is not preempted at its checkpoints, and GSCHED_PREEMPTIBLE_LATER acts
/// as GSCHED_PREEMPTIBLE.
///
/// With GSCHED_INSTRUMENT, which comes first, each block of a launch reports its start and end,
/// also blocks that are preempted or have nothing to run. The number of words of a launch does not
/// change.
///
/// With GSCHED_NO_PREEMPTION defined, gsched_block is blockIdx, GSCHED_SYNC_CHECKPOINT is
/// __syncthreads(), and the other macros are empty.
///
/// With GSCHED_PREEMPT_CHECK defined, each checkpoint waits for all threads of the warp, or of the
/// block, for up to GSCHED_PREEMPT_CHECK_CYCLES clock cycles. If some do not arrive, because the
/// checkpoint is in divergent code or they are at another checkpoint, its line is reported to the
/// host (preemption_end), and the block runs to its end. Without the check, divergent threads at a
/// GSCHED_CHECKPOINT() exit, the others run to the kernel's end, and the block restarts; any other
/// checkpoint in divergent code is undefined behaviour, as for a barrier.
///
/// Source   Han et al., ACM TOCS 44(1), 2025, section 4, doi:10.1145/3768622 (the preamble).
/// Differs  running blocks exit as well, without being killed; only blocks that have not ended run
///          again.
/// Errors   a kernel that needs all of its blocks at once, for a grid barrier or clusters, is
///          refused where its parameter is found.
/// Cost     GSCHED_PREEMPTIBLE: a trip to L2 by one thread, and a barrier. GSCHED_CHECKPOINT(): a
///          load that no thread waits for, and a branch; with all threads of the block, also a
///          barrier. At most four registers in kernels of 26 or more, and four bytes of shared
///          memory in kernels with a checkpoint. A kernel with a default-constructed parameter pays
///          one test. Blocks that end pay nothing more. Place checkpoints half a microsecond apart
///          or more, because the blocks of a full GPU all read one word.
#ifdef GSCHED_NO_PREEMPTION
#define GSCHED_PREEMPTIBLE(p)                                                                      \
  static_cast<void>(p);                                                                            \
  [[maybe_unused]] const uint3 gsched_block = blockIdx
#define GSCHED_PREEMPTIBLE_LATER(p) GSCHED_PREEMPTIBLE(p)
#define GSCHED_CHECKPOINT(...) static_cast<void>(0)
#define GSCHED_SYNC_CHECKPOINT(...) __syncthreads()
#define GSCHED_CHECKPOINT_EVERY(n, ...) static_cast<void>(0)
#define GSCHED_RESUMED() false
#else
#define GSCHED_PREEMPTIBLE(p)                                                                      \
  GSCHED_PREEMPTIBLE_DECLARE_(p);                                                                  \
  if (gsched_preemption_.exits_at_start()) return;                                                 \
  gsched_preemption_.request_first();                                                              \
  [[maybe_unused]] const uint3 gsched_block = gsched_preemption_.block()
#define GSCHED_PREEMPTIBLE_LATER(p)                                                                \
  GSCHED_PREEMPTIBLE_DECLARE_(p);                                                                  \
  if (gsched_preemption_.has_no_work()) return;                                                    \
  [[maybe_unused]] const uint3 gsched_block = gsched_preemption_.block()
#define GSCHED_CHECKPOINT(...)                                                                     \
  GSCHED_CHECKPOINT_IF_(exits(__LINE__ __VA_OPT__(, GSCHED_TOGETHER_)) __VA_OPT__(, ) __VA_ARGS__)
#define GSCHED_SYNC_CHECKPOINT(...)                                                                \
  GSCHED_CHECKPOINT_IF_(exits_at_barrier(__LINE__) __VA_OPT__(, ) __VA_ARGS__)
#define GSCHED_CHECKPOINT_EVERY(n, ...)                                                            \
  GSCHED_CHECKPOINT_IF_(exits_every(n, __LINE__ __VA_OPT__(, GSCHED_TOGETHER_)) __VA_OPT__(, )     \
                            __VA_ARGS__)
#define GSCHED_RESUMED() gsched_preemption_.is_resumed()

#define GSCHED_CHECKPOINT_IF_(it_exits, ...)                                                       \
  do {                                                                                             \
    if (gsched_preemption_.it_exits) {                                                             \
      __VA_OPT__(if (gsched_preemption_.can_save()) { __VA_ARGS__; })                              \
      gsched_preemption_.record_exit(false __VA_OPT__(|| true));                                   \
      return;                                                                                      \
    }                                                                                              \
  } while (false)

#define GSCHED_TOGETHER_                                                                           \
  ::gsched::cuda::detail::together {}

#ifdef GSCHED_PREEMPT_CHECK
#define GSCHED_PREEMPTIBLE_DECLARE_(p)                                                             \
  __shared__ ::std::uint32_t gsched_exited_;                                                       \
  __shared__ ::gsched::cuda::detail::checked::all_arrivals gsched_arrivals_;                       \
  ::gsched::cuda::detail::preemptible_block<::gsched::cuda::detail::checked> gsched_preemption_(   \
      p, gsched_exited_, gsched_arrivals_)
#else
#define GSCHED_PREEMPTIBLE_DECLARE_(p)                                                             \
  __shared__ ::std::uint32_t gsched_exited_;                                                       \
  ::gsched::cuda::detail::preemptible_block<::gsched::cuda::detail::unchecked> gsched_preemption_( \
      p, gsched_exited_, nullptr)
#endif
#endif

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/detail/preempt_block.cuh>
#include <gsched/cuda/detail/preempt_check.cuh>
#include <gsched/cuda/preemption.hpp>

/// Kernels that leave the GPU when they are told to, and go on later with the blocks that have not
/// ended:
///
///   __global__ void dot(gsched::cuda::preemption p, const float* x, int n, float* sums) {
///     GSCHED_PREEMPTIBLE(p);
///     float* const mine = sums + gsched_block.x * blockDim.x + threadIdx.x;
///     int i = 0;
///     float sum = 0;
///     if (GSCHED_RESUMED()) ...                 // i and sum as they were saved
///     for (; i < n; ++i) {
///       sum += ...
///       GSCHED_CHECKPOINT(save(i + 1, sum));
///     }
///     *mine = sum;
///   }
///
/// GSCHED_PREEMPTIBLE(p), the first line but for GSCHED_INSTRUMENT, which all threads pass. It
/// declares gsched_block, to be used in place of blockIdx; gridDim stays as it is. A block that
/// finds the flag set returns from the kernel at once, all threads of it alike, and will be run
/// later.
///
/// GSCHED_PREEMPTIBLE_LATER(p): the same, but the block does not wait for the flag's value: it acts
/// on it at its first checkpoint, wherever that is, and saves nothing there. That had better be one
/// for all threads, and come before the block writes anything but shared memory: in a kernel
/// without loops, a GSCHED_SYNC_CHECKPOINT() between its loads and its stores. Where what comes
/// before takes longer than a trip to L2, this is free.
///
/// GSCHED_CHECKPOINT(), in a kernel's body: the threads of a warp get here together. If the flag
/// was found set, the warp returns from the kernel, and so will the others of its block at a
/// checkpoint of theirs, which may be in another pass, or to its end where they come to none; the
/// block starts anew. So nothing that it writes may matter that early, or be harmed by what is
/// missing of the warps that have left: what they would have stored in shared memory, say, which
/// may be used as a number but not as an address. Where what comes after a loop must not be done
/// twice, it has a GSCHED_SYNC_CHECKPOINT() before it. __syncthreads() does not wait for threads
/// that have left; a named barrier or an mbarrier does, and so such loops have
/// GSCHED_SYNC_CHECKPOINT() instead.
///
/// GSCHED_CHECKPOINT(save...) and GSCHED_SYNC_CHECKPOINT(save...): all threads of the block get
/// here together, or none, but for warps that have left. If the flag was found set, all of them run
/// the statement, if there is one, and return from the kernel. Without a statement the block starts
/// anew, so what it has written by then must not matter. The second is in place of a
/// __syncthreads() that the kernel needs.
///
/// The flag's value is the one asked for at the checkpoint before this one, so that nobody waits
/// for it, or at the kernel's first line. The first warp asks for it, and tells the others as it
/// leaves: a block whose warps leave by themselves has left by the third checkpoint after the flag
/// was set, else by the second. In a block whose first warp has ended, the others go on to their
/// ends.
///
/// GSCHED_CHECKPOINT_EVERY(n, save...): as GSCHED_CHECKPOINT at every n-th pass, 1 being all.
/// GSCHED_RESUMED(): whether this block has saved something to go on from.
///
/// Of a kernel that leaves between blocks (preemption::between_blocks(), or restrict_leaving) no
/// block leaves at a checkpoint, and GSCHED_PREEMPTIBLE_LATER is GSCHED_PREEMPTIBLE.
///
/// With GSCHED_INSTRUMENT, which comes first, every block of a launch reports its start and end,
/// also those that leave or that have nothing left to do: the words of a launch are as many as
/// ever.
///
/// Under GSCHED_NO_PREEMPTION gsched_block is blockIdx, GSCHED_SYNC_CHECKPOINT is __syncthreads(),
/// and all else is nothing.
///
/// Under GSCHED_PREEMPT_CHECK each checkpoint waits for all threads of the warp, or of the block,
/// for up to GSCHED_PREEMPT_CHECK_CYCLES of the clock. Where some never come, as the checkpoint is
/// in divergent code, or are at another one, its line is told to the host (preemption_end), and the
/// block does not leave but runs to its end. Without, threads that get to a GSCHED_CHECKPOINT()
/// leave, the others go on to the kernel's end, and the block starts anew; the behaviour of a
/// kernel with any other checkpoint in divergent code is undefined, as with any barrier.
///
/// Source   Han et al., ACM TOCS 44(1), 2025, section 4, doi:10.1145/3768622, whose preamble this
///          is.
/// Differs  running blocks leave as well, and are not killed; only blocks that have not ended run
///          again.
/// Errors   a kernel that needs all of its blocks at once, by a barrier of the grid or in clusters,
///          is refused where its parameter is found.
/// Cost     GSCHED_PREEMPTIBLE: a trip to L2 by one thread, and a barrier. GSCHED_CHECKPOINT(): a
///          load for which nobody waits, and a branch. One for all threads: a barrier more. At most
///          four registers where a kernel has 26 or more, and four bytes of shared memory where it
///          has a checkpoint. A kernel whose parameter is not filled in pays a test of it. Blocks
///          that end pay nothing more. Checkpoints should be half a microsecond apart or more: the
///          blocks of a full GPU all ask for one word.
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
  if (gsched_preemption_.leaves_at_start()) return;                                                \
  gsched_preemption_.ask_first();                                                                  \
  [[maybe_unused]] const uint3 gsched_block = gsched_preemption_.block()
#define GSCHED_PREEMPTIBLE_LATER(p)                                                                \
  GSCHED_PREEMPTIBLE_DECLARE_(p);                                                                  \
  if (gsched_preemption_.has_nothing_left()) return;                                               \
  [[maybe_unused]] const uint3 gsched_block = gsched_preemption_.block()
#define GSCHED_CHECKPOINT(...)                                                                     \
  GSCHED_CHECKPOINT_IF_(leaves(__LINE__ __VA_OPT__(, GSCHED_TOGETHER_)) __VA_OPT__(, ) __VA_ARGS__)
#define GSCHED_SYNC_CHECKPOINT(...)                                                                \
  GSCHED_CHECKPOINT_IF_(leaves_at_barrier(__LINE__) __VA_OPT__(, ) __VA_ARGS__)
#define GSCHED_CHECKPOINT_EVERY(n, ...)                                                            \
  GSCHED_CHECKPOINT_IF_(leaves_every(n, __LINE__ __VA_OPT__(, GSCHED_TOGETHER_)) __VA_OPT__(, )    \
                            __VA_ARGS__)
#define GSCHED_RESUMED() gsched_preemption_.is_resumed()

#define GSCHED_CHECKPOINT_IF_(it_leaves, ...)                                                      \
  do {                                                                                             \
    if (gsched_preemption_.it_leaves) {                                                            \
      __VA_OPT__(if (gsched_preemption_.can_save()) { __VA_ARGS__; })                              \
      gsched_preemption_.leave(false __VA_OPT__(|| true));                                         \
      return;                                                                                      \
    }                                                                                              \
  } while (false)

#define GSCHED_TOGETHER_                                                                           \
  ::gsched::cuda::detail::together {}

#ifdef GSCHED_PREEMPT_CHECK
#define GSCHED_PREEMPTIBLE_DECLARE_(p)                                                             \
  __shared__ ::std::uint32_t gsched_left_;                                                         \
  __shared__ ::gsched::cuda::detail::checked::all_arrivals gsched_arrivals_;                       \
  ::gsched::cuda::detail::preemptible_block<::gsched::cuda::detail::checked> gsched_preemption_(   \
      p, gsched_left_, gsched_arrivals_)
#else
#define GSCHED_PREEMPTIBLE_DECLARE_(p)                                                             \
  __shared__ ::std::uint32_t gsched_left_;                                                         \
  ::gsched::cuda::detail::preemptible_block<::gsched::cuda::detail::unchecked> gsched_preemption_( \
      p, gsched_left_, nullptr)
#endif
#endif

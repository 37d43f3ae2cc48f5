// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/preemption.hpp>

#include <cstdint>

#ifndef GSCHED_PREEMPT_CHECK_CYCLES
#define GSCHED_PREEMPT_CHECK_CYCLES (1ll << 28)
#endif

namespace gsched::cuda::detail {

#define GSCHED_DEVICE __device__ __forceinline__

/// Finds checkpoints that not all threads of a block reach, in a way that ends whatever they do: a
/// thread counts itself and waits for the count to be full, until it has waited too long.
///
/// Order    all of them come to the same end. Who has waited too long marks the word that is
///          counted, unless it is full by then; so either it became full before any mark, or it
///          has one. Nobody gets to the next count while one waits here, as the checkpoint's own
///          barrier follows where the count is full, and none counts any more where it is marked.
/// Cost     it is for debugging: two atomics a thread and checkpoint, in shared memory.
class checked {
public:
  struct arrivals {
    unsigned long long count; ///< of threads, over all checkpoints
    unsigned long long which; ///< the last checkpoint, by number and line
  };
  using place = arrivals&;

  GSCHED_DEVICE explicit checked(place here) : here_(here) {}

  /// On the kernel's first line.
  GSCHED_DEVICE void start() {
    if ((threadIdx.x | threadIdx.y | threadIdx.z) == 0) here_.count = here_.which = 0;
    __syncthreads();
  }

  /// Whether all threads of the block get to this checkpoint. If not, it is told, and from then on
  /// no checkpoint of this block does anything.
  GSCHED_DEVICE bool all_arrive(preemption_slot& slot, unsigned line) {
    const unsigned long long threads = blockDim.x * blockDim.y * blockDim.z;
    const unsigned long long full = ++number_ * threads;
    const unsigned long long here = number_ << 32 | line;
    const unsigned long long last = atomicMax(&here_.which, here);
    if ((last >> 32) == number_ && last != here) return give_up(slot, line, full);
    atomicAdd(&here_.count, 1ull);
    for (const long long start = clock64();; __nanosleep(20)) {
      const unsigned long long now = *static_cast<volatile unsigned long long*>(&here_.count);
      if ((now & marked) != 0) return false;
      if (now >= full) return true;
      if (clock64() - start > GSCHED_PREEMPT_CHECK_CYCLES) return give_up(slot, line, full);
    }
  }

private:
  static constexpr unsigned long long marked = 1ull << 63;

  /// False, but where the last thread has come in the last moment.
  GSCHED_DEVICE bool give_up(preemption_slot& slot, unsigned line, unsigned long long full) {
    unsigned long long now = *static_cast<volatile unsigned long long*>(&here_.count);
    for (;;) {
      if ((now & marked) != 0) return false;
      if (now >= full) return true;
      const unsigned long long before = atomicCAS(&here_.count, now, now | marked);
      if (before == now) break;
      now = before;
    }
    atomicCAS(&slot.trouble, 0u, line);
    return false;
  }

  arrivals& here_;
  unsigned long long number_ = 0;
};

#undef GSCHED_DEVICE

} // namespace gsched::cuda::detail

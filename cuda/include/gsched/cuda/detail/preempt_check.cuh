// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/detail/preempt_block.cuh>
#include <gsched/cuda/preemption.hpp>

#include <cstdint>

#ifndef GSCHED_PREEMPT_CHECK_CYCLES
#define GSCHED_PREEMPT_CHECK_CYCLES (1ll << 28)
#endif

namespace gsched::cuda::detail {

#define GSCHED_DEVICE __device__ __forceinline__

/// Finds checkpoints that not all threads of a warp, or of a block, reach, in a way that ends
/// whatever they do: a thread counts itself and waits for the count to be full, until it has waited
/// too long.
///
/// Order    all of them come to the same end. Who has waited too long marks the word that is
///          counted, unless it is full by then; so either it became full before any mark, or it
///          has one. Nobody gets to the next count while one waits here, as a barrier follows where
///          the count is full, and none counts any more where it is marked.
/// Cost     it is for debugging: two atomics a thread and checkpoint, and shared memory.
class checked {
public:
  struct arrivals {
    unsigned long long count; ///< of threads, over all checkpoints
    unsigned long long which; ///< the last checkpoint, by number and line
  };
  struct all_arrivals {
    arrivals block;
    arrivals warps[32];
  };
  using place = all_arrivals&;

  GSCHED_DEVICE explicit checked(place all) : all_(all) {}

  /// On the kernel's first line.
  GSCHED_DEVICE void start() {
    all_.warps[thread_of_block() / 32] = {0, 0};
    all_.block = {0, 0};
    __syncthreads();
  }

  /// Whether all threads of the warp get to this checkpoint. If not, it is told, and from then on
  /// no checkpoint of its own does anything for this warp.
  GSCHED_DEVICE bool warp_arrives(preemption_slot& slot, unsigned line) {
    const unsigned warp = thread_of_block() / 32;
    const unsigned threads = min(32u, threads_of_block() - 32 * warp);
    const std::uint32_t nobody_leaves = 0;
    if (!arrive(all_.warps[warp], ++in_warp_, threads, slot, nobody_leaves, line)) return false;
    __syncwarp(0xffff'ffffu >> (32 - threads));
    return true;
  }

  /// Whether all threads of the block get to this checkpoint, but those of warps that have left. If
  /// not, it is told, and from then on no checkpoint for all does anything in this block.
  GSCHED_DEVICE bool all_arrive(preemption_slot& slot, const std::uint32_t& left, unsigned line) {
    return arrive(all_.block, ++in_block_, threads_of_block(), slot, left, line);
  }

private:
  static constexpr unsigned long long marked = 1ull << 63;

  GSCHED_DEVICE static bool arrive(arrivals& here, unsigned long long number, unsigned threads,
                                   preemption_slot& slot, const std::uint32_t& left,
                                   unsigned line) {
    const unsigned long long full = number * threads;
    const unsigned long long which = number << 32 | line;
    const unsigned long long last = atomicMax(&here.which, which);
    if ((last >> 32) == number && last != which) return give_up(here, slot, line, full);
    atomicAdd(&here.count, 1ull);
    for (const long long start = clock64();; __nanosleep(20)) {
      const unsigned long long now = *static_cast<volatile unsigned long long*>(&here.count);
      if ((now & marked) != 0) return false;
      if (now >= full || *static_cast<const volatile std::uint32_t*>(&left) != 0) return true;
      if (clock64() - start > GSCHED_PREEMPT_CHECK_CYCLES) return give_up(here, slot, line, full);
    }
  }

  /// False, but where the last thread has come in the last moment.
  GSCHED_DEVICE static bool give_up(arrivals& here, preemption_slot& slot, unsigned line,
                                    unsigned long long full) {
    unsigned long long now = *static_cast<volatile unsigned long long*>(&here.count);
    for (;;) {
      if ((now & marked) != 0) return false;
      if (now >= full) return true;
      const unsigned long long before = atomicCAS(&here.count, now, now | marked);
      if (before == now) break;
      now = before;
    }
    atomicCAS(&slot.trouble, 0u, line);
    return false;
  }

  all_arrivals& all_;
  unsigned long long in_warp_ = 0;
  unsigned long long in_block_ = 0;
};

#undef GSCHED_DEVICE

} // namespace gsched::cuda::detail

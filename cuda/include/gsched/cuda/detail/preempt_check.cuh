// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/detail/preempt_block.cuh>
#include <gsched/cuda/preempt/preemption.hpp>

#include <cstdint>

#ifndef GSCHED_PREEMPT_CHECK_CYCLES
#define GSCHED_PREEMPT_CHECK_CYCLES (1ll << 28)
#endif

namespace gsched::cuda::detail {

#define GSCHED_DEVICE __device__ __forceinline__

/// Detects checkpoints that not all threads of a warp, or of a block, reach. A thread counts itself
/// and waits until the count is complete or a time limit has passed, so the check always ends.
///
/// Order    all threads reach the same verdict. A thread that times out marks the counted word
///          unless the count is complete, so the word either was complete before any mark or is
///          marked. No thread starts the next count while another one waits: a barrier follows a
///          complete count, and a marked word is not counted again.
/// Cost     for debugging: two atomics for each thread and checkpoint, and shared memory.
class checked {
public:
  struct arrivals {
    unsigned long long count; ///< threads, summed over all checkpoints
    unsigned long long which; ///< number and line of the last checkpoint
  };
  struct all_arrivals {
    arrivals block;
    arrivals warps[32];
  };
  using place = all_arrivals&;

  GSCHED_DEVICE explicit checked(place all) : all_(all) {}

  /// Runs on the kernel's first line.
  GSCHED_DEVICE void start() {
    all_.warps[thread_of_block() / 32] = {0, 0};
    all_.block = {0, 0};
    __syncthreads();
  }

  /// Whether all threads of the warp reach this checkpoint. If not, the line is reported, and later
  /// checkpoints of this warp have no effect.
  GSCHED_DEVICE bool warp_arrives(preemption_slot& slot, unsigned line) {
    const unsigned warp = thread_of_block() / 32;
    const unsigned threads = min(32u, threads_of_block() - 32 * warp);
    const std::uint32_t none_exited = 0;
    if (!arrive(all_.warps[warp], ++in_warp_, threads, slot, none_exited, line)) return false;
    __syncwarp(0xffff'ffffu >> (32 - threads));
    return true;
  }

  /// Whether all threads of the block reach this checkpoint, except those of warps that have
  /// exited. If not, the line is reported, and later block-wide checkpoints have no effect.
  GSCHED_DEVICE bool all_arrive(preemption_slot& slot, const std::uint32_t& exited, unsigned line) {
    return arrive(all_.block, ++in_block_, threads_of_block(), slot, exited, line);
  }

private:
  static constexpr unsigned long long marked = 1ull << 63;

  GSCHED_DEVICE static bool arrive(arrivals& here, unsigned long long number, unsigned threads,
                                   preemption_slot& slot, const std::uint32_t& exited,
                                   unsigned line) {
    const unsigned long long full = number * threads;
    const unsigned long long which = number << 32 | line;
    const unsigned long long last = atomicMax(&here.which, which);
    if ((last >> 32) == number && last != which) return give_up(here, slot, line, full);
    atomicAdd(&here.count, 1ull);
    for (const long long start = clock64();; __nanosleep(20)) {
      const unsigned long long now = *static_cast<volatile unsigned long long*>(&here.count);
      if ((now & marked) != 0) return false;
      if (now >= full || *static_cast<const volatile std::uint32_t*>(&exited) != 0) return true;
      if (clock64() - start > GSCHED_PREEMPT_CHECK_CYCLES) return give_up(here, slot, line, full);
    }
  }

  /// Marks the word and returns false; true if the last thread has arrived meanwhile.
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

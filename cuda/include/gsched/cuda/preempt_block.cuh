// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/preemption.hpp>

#include <cstddef>
#include <cstdint>

namespace gsched::cuda::detail {

#define GSCHED_DEVICE __device__ __forceinline__

/// The flag is written from outside of the GPU's threads, hence the scope; it lies in L2 all the
/// same.
GSCHED_DEVICE std::uint32_t ask(const std::uint32_t* flag) {
  std::uint32_t value;
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(flag));
  return value;
}

GSCHED_DEVICE std::uint32_t load_word(const std::uint32_t* where) {
  std::uint32_t value;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(where));
  return value;
}

GSCHED_DEVICE bool is_first_thread() { return (threadIdx.x | threadIdx.y | threadIdx.z) == 0; }

GSCHED_DEVICE std::uint32_t linear(const uint3& block) {
  return block.x + gridDim.x * (block.y + gridDim.y * block.z);
}

GSCHED_DEVICE uint3 at_linear(std::uint32_t block) {
  const std::uint32_t row = block / gridDim.x;
  return {block - row * gridDim.x, row % gridDim.y, row / gridDim.y};
}

/// Checks nothing: see preempt_check.cuh for one that does.
struct unchecked {
  using place = std::nullptr_t;
  GSCHED_DEVICE explicit unchecked(place) {}
  GSCHED_DEVICE void start() {}
  GSCHED_DEVICE bool all_arrive(preemption_slot&, unsigned) { return true; }
};

/// A block's way through a kernel that can leave. One thread asks for the flag and the barrier
/// tells the others: so all do alike, and the word is not read by thousands of warps, who would
/// wait for one another.
template <class Check>
class preemptible_block {
public:
  GSCHED_DEVICE preemptible_block(const preemption& p, typename Check::place place)
      : p_(p), check_(place), block_(blockIdx) {}

  /// The first line: whether this block is to return, as it has left or was run earlier.
  GSCHED_DEVICE bool leaves_at_start() {
    begun_ = true;
    if (p_.flag == nullptr) return false;
    check_.start();
    std::uint32_t flag = 0;
    std::uint32_t state = 0;
    if (is_first_thread()) {
      flag = ask(p_.flag);
      if (p_.resumes) state = load_word(&p_.slot->state);
    }
    if (__syncthreads_or(static_cast<int>(flag | state)) == 0) return false;
    if (p_.resumes) {
      if (!find_block()) return true;
      if (__syncthreads_or(static_cast<int>(flag)) == 0) return false;
    }
    leave(false);
    return true;
  }

  /// The first line where it is left to the first checkpoint to leave: whether this block was run
  /// earlier. The flag's value may come at any time; nobody waits for it here.
  GSCHED_DEVICE bool has_nothing_left() {
    begun_ = false;
    if (p_.flag == nullptr) return false;
    check_.start();
    if (is_first_thread()) asked_ = ask(p_.flag);
    if (!p_.resumes) return false;
    const std::uint32_t state = is_first_thread() ? load_word(&p_.slot->state) : 0;
    return __syncthreads_or(static_cast<int>(state)) != 0 && !find_block();
  }

  [[nodiscard]] GSCHED_DEVICE uint3 block() const { return block_; }
  [[nodiscard]] GSCHED_DEVICE bool is_resumed() const { return resumed_; }

  [[nodiscard]] GSCHED_DEVICE bool leaves(unsigned line) {
    return p_.flag != nullptr && leaves_at_barrier(line);
  }

  [[nodiscard]] GSCHED_DEVICE bool leaves_at_barrier(unsigned line) {
    if (p_.flag != nullptr && !check_.all_arrive(*p_.slot, line)) return false;
    if (__syncthreads_or(static_cast<int>(asked_)) != 0) return true;
    begun_ = true;
    if (p_.flag != nullptr && is_first_thread()) asked_ = ask(p_.flag);
    return false;
  }

  [[nodiscard]] GSCHED_DEVICE bool leaves_every(std::uint32_t n, unsigned line) {
    if (++passes_ < n) return false;
    passes_ = 0;
    return leaves(line);
  }

  /// Of a block that leaves: whether it has done anything that could be saved.
  [[nodiscard]] GSCHED_DEVICE bool has_begun() const { return begun_; }

  /// What was saved in an earlier launch stays what the block goes on from, if it saves nothing
  /// now.
  GSCHED_DEVICE void leave(bool saves) const {
    if (!is_first_thread()) return;
    const bool saved = (saves && begun_) || resumed_;
    const std::uint32_t state = p_.resumes ? load_word(&p_.slot->state) : 0;
    std::uint32_t* const list = list_of(state ^ resumption::second); // the one nobody reads
    list[atomicAdd(&p_.slot->left, 1)] = linear(block_) | (saved ? resumption::begun : 0);
    if (saved) p_.slot->begun = 1;
  }

private:
  [[nodiscard]] GSCHED_DEVICE std::uint32_t* list_of(std::uint32_t state) const {
    return p_.slot->lists + ((state & resumption::second) != 0 ? p_.blocks : 0);
  }

  /// Which block this one is, in a launch of some; false if it is none. The state stays as it is
  /// while a launch is under way, so each thread may look by itself.
  [[nodiscard]] GSCHED_DEVICE bool find_block() {
    const std::uint32_t state = load_word(&p_.slot->state);
    if ((state & resumption::some) == 0) return true;
    const std::uint32_t at = linear(blockIdx);
    if (at >= (state & resumption::count)) return false;
    const std::uint32_t entry = load_word(list_of(state) + at);
    block_ = at_linear(entry & ~resumption::begun);
    resumed_ = (entry & resumption::begun) != 0;
    return true;
  }

  const preemption& p_;
  [[no_unique_address]] Check check_;
  uint3 block_;
  std::uint32_t asked_ = 0; ///< of the first thread: what it has last asked for; else 0
  std::uint32_t passes_ = 0;
  bool begun_ = false;
  bool resumed_ = false;
};

#undef GSCHED_DEVICE

} // namespace gsched::cuda::detail

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/preemption.hpp>

#include <cstddef>
#include <cstdint>

namespace gsched::cuda::detail {

#define GSCHED_DEVICE __device__ __forceinline__

/// The flag is written from outside of the GPU's threads, hence the scope; it lies in L2 all the
/// same. Of a generic address, as what is asked may be in shared memory.
GSCHED_DEVICE std::uint32_t ask(const std::uint32_t* where) {
  std::uint32_t value;
  asm volatile("ld.relaxed.sys.u32 %0, [%1];" : "=r"(value) : "l"(where));
  return value;
}

/// The same, but 0 where there is nothing to ask; and the compiler may leave it out where nobody
/// uses the value.
GSCHED_DEVICE std::uint32_t ask_if_used(const std::uint32_t* where) {
  std::uint32_t value = 0;
  asm("{\n\t.reg .pred asks;\n\t"
      "setp.ne.u64 asks, %1, 0;\n\t"
      "@asks ld.relaxed.sys.global.u32 %0, [%1];\n\t}"
      : "+r"(value)
      : "l"(where));
  return value;
}

/// 0, which the compiler does not know.
GSCHED_DEVICE std::uint32_t not_asked() {
  std::uint32_t value;
  asm volatile("mov.u32 %0, 0;" : "=r"(value));
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

GSCHED_DEVICE unsigned threads_of_block() { return blockDim.x * blockDim.y * blockDim.z; }

GSCHED_DEVICE unsigned thread_of_block() {
  return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}

/// One of the threads of a warp that are here.
GSCHED_DEVICE bool is_first_here() {
  return (thread_of_block() & 31) ==
         static_cast<unsigned>(__ffs(static_cast<int>(__activemask())) - 1);
}

struct together {};

/// Checks nothing: see preempt_check.cuh for one that does.
struct unchecked {
  using place = std::nullptr_t;
  GSCHED_DEVICE explicit unchecked(place) {}
  GSCHED_DEVICE void start() {}
  GSCHED_DEVICE bool warp_arrives(preemption_slot&, unsigned) { return true; }
  GSCHED_DEVICE bool all_arrive(preemption_slot&, const std::uint32_t&, unsigned) { return true; }
};

/// A block's way through a kernel that can leave. `left` is a word in shared memory: whether a warp
/// has left.
///
/// The first warp asks for the flag and the others for that word, so that the flag is not read by
/// thousands of warps, who would wait for one another. Each warp acts at a checkpoint on what it
/// asked for at the one before, and goes by itself: a warp that has left is no longer counted by
/// the barriers of its block. The first to leave says so and puts the block on the list, once.
///
/// Order    who leaves writes `left` before it exits, and an exit is what a barrier waits for in
///          place of an arrival: so after a barrier at which threads are missing, `left` is seen.
///          Until the next barrier it stays as it is, as all who are there go to that one.
template <class Check>
class preemptible_block {
public:
  GSCHED_DEVICE preemptible_block(const preemption& p, std::uint32_t& left,
                                  typename Check::place place)
      : p_(p), left_(left), check_(place), block_(blockIdx), where_(&left) {}

  /// The first line: whether this block is to return, as it has left or was run earlier.
  GSCHED_DEVICE bool leaves_at_start() { return returns_at_start(true); }

  /// The first line where it is left to the first checkpoint to leave: whether this block was run
  /// earlier. The flag's value may come at any time; nobody waits for it here. But a kernel that
  /// must not leave at checkpoints leaves here or not at all.
  GSCHED_DEVICE bool has_nothing_left() {
    const bool returns = returns_at_start(p_.leaves == leaving::between_blocks);
    asked_together_ = ask(where_);
    return returns;
  }

  /// Behind the first line, if nothing was asked there.
  GSCHED_DEVICE void ask_first() {
    asked_together_ = ask_if_used(asks_for_flag() ? p_.flag : nullptr);
  }

  [[nodiscard]] GSCHED_DEVICE uint3 block() const { return block_; }
  [[nodiscard]] GSCHED_DEVICE bool is_resumed() const { return resumed_; }

  /// Each warp for itself.
  [[nodiscard]] GSCHED_DEVICE bool leaves(unsigned line) {
    if (p_.flag != nullptr && !check_.warp_arrives(*p_.slot, line)) return false;
    if (asked_ != 0) return true;
    begun_ = true;
    asked_ = ask(where_);
    return false;
  }
  /// All threads or none.
  [[nodiscard]] GSCHED_DEVICE bool leaves(unsigned line, together) {
    return p_.flag != nullptr && leaves_at_barrier(line);
  }

  /// Counted, as some may have left at a checkpoint of their own; those who are still there then
  /// leave as well.
  [[nodiscard]] GSCHED_DEVICE bool leaves_at_barrier(unsigned line) {
    if (p_.flag != nullptr && !check_.all_arrive(*p_.slot, left_, line)) return false;
    const bool all_stay =
        __syncthreads_count(asked_together_ == 0) == static_cast<int>(threads_of_block());
    if (!all_stay && p_.flag != nullptr) { // or threads are missing that returned long ago
      some_left_ = ask(&left_) != 0;
      if (__syncthreads_or(asked_together_ != 0 || some_left_) != 0) return true;
    }
    begun_ = true;
    asked_together_ = ask(where_);
    return false;
  }

  template <class... Together>
  [[nodiscard]] GSCHED_DEVICE bool leaves_every(std::uint32_t n, unsigned line, Together... how) {
    if (++passes_ < n) return false;
    passes_ = 0;
    return leaves(line, how...);
  }

  /// Of a block whose threads leave together: whether it has done anything that could be saved, by
  /// all of them.
  [[nodiscard]] GSCHED_DEVICE bool can_save() const { return begun_ && !some_left_; }

  /// What was saved in an earlier launch stays what the block goes on from, if it saves nothing
  /// now.
  GSCHED_DEVICE void leave(bool saves) const {
    if (some_left_ || !is_first_here() || atomicExch(&left_, 1u) != 0) return;
    __threadfence_block();
    list(saves && begun_);
  }

private:
  /// `may_leave`: asks for the flag and waits for its value.
  GSCHED_DEVICE bool returns_at_start(bool may_leave) {
    begun_ = may_leave;
    left_ = 0;
    if (p_.flag == nullptr) return false;
    check_.start();
    std::uint32_t flag = 0;
    std::uint32_t state = 0;
    if (is_first_thread()) {
      if (may_leave) flag = ask(p_.flag);
      if (p_.resumes) state = load_word(&p_.slot->state);
    }
    where_ = place_to_ask();
    if (!may_leave && !p_.resumes) { // nothing to find out
      __syncthreads();
      return false;
    }
    if (__syncthreads_or(static_cast<int>(flag | state)) == 0) return false;
    if (p_.resumes) {
      if (!find_block()) return true;
      if (!may_leave || __syncthreads_or(static_cast<int>(flag)) == 0) return false;
    }
    if (is_first_thread()) list(false);
    return true;
  }

  /// At checkpoints. Where nobody does, as the kernel leaves between blocks, no block leaves there.
  [[nodiscard]] GSCHED_DEVICE bool asks_for_flag() const {
    return thread_of_block() < 32 && p_.leaves == leaving::at_checkpoints;
  }
  [[nodiscard]] GSCHED_DEVICE const std::uint32_t* place_to_ask() const {
    return asks_for_flag() ? p_.flag : &left_;
  }

  /// By one thread. The loads and the count are asked for at once: one trip to L2 for all.
  GSCHED_DEVICE void list(bool saved) const {
    saved |= resumed_;
    const std::uint32_t state = load_word(&p_.slot->state); // 0 of a launch of all blocks
    std::uint32_t* const lists = p_.slot->lists;
    const std::uint32_t at = atomicAdd(&p_.slot->left, 1);
    list_of(lists, state ^ resumption::second)[at] = // the one nobody reads
        linear(block_) | (saved ? resumption::begun : 0);
    if (saved) p_.slot->begun = 1;
  }

  [[nodiscard]] GSCHED_DEVICE std::uint32_t* list_of(std::uint32_t* lists,
                                                     std::uint32_t state) const {
    return lists + ((state & resumption::second) != 0 ? p_.blocks : 0);
  }

  /// Which block this one is, in a launch of some; false if it is none. The state stays as it is
  /// while a launch is under way, so each thread may look by itself.
  [[nodiscard]] GSCHED_DEVICE bool find_block() {
    const std::uint32_t state = load_word(&p_.slot->state);
    if ((state & resumption::some) == 0) return true;
    const std::uint32_t at = linear(blockIdx);
    if (at >= (state & resumption::count)) return false;
    const std::uint32_t entry = load_word(list_of(p_.slot->lists, state) + at);
    block_ = at_linear(entry & ~resumption::begun);
    resumed_ = (entry & resumption::begun) != 0;
    return true;
  }

  const preemption& p_;
  std::uint32_t& left_;
  [[no_unique_address]] Check check_;
  uint3 block_;
  const std::uint32_t* where_;
  // What was asked for last, at checkpoints of each kind. It must be tested at the next one and not
  // where it comes, which would wait for it; nor may the loop wait as it goes on. Both depend on
  // what the compiler knows of the first value, and so these are two. bench/cuda/preemption tells.
  std::uint32_t asked_ = not_asked();
  std::uint32_t asked_together_ = 0;
  std::uint32_t passes_ = 0;
  bool begun_ = false;
  bool resumed_ = false;
  bool some_left_ = false; ///< before the others were to leave together
};

#undef GSCHED_DEVICE

} // namespace gsched::cuda::detail

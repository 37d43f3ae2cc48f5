// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/preempt/preemption.hpp>

#include <cstddef>
#include <cstdint>

namespace gsched::cuda::detail {

#define GSCHED_DEVICE __device__ __forceinline__

/// Loads a word that is written from outside the GPU, hence the system scope; the load is served by
/// L2. The address is generic, because the word may also be in shared memory.
GSCHED_DEVICE std::uint32_t request(const std::uint32_t* where) {
  std::uint32_t value;
  asm volatile("ld.relaxed.sys.u32 %0, [%1];" : "=r"(value) : "l"(where));
  return value;
}

/// The same, or 0 for a null address. The compiler may remove the load if the value is unused.
GSCHED_DEVICE std::uint32_t request_if_used(const std::uint32_t* where) {
  std::uint32_t value = 0;
  asm("{\n\t.reg .pred asks;\n\t"
      "setp.ne.u64 asks, %1, 0;\n\t"
      "@asks ld.relaxed.sys.global.u32 %0, [%1];\n\t}"
      : "+r"(value)
      : "l"(where));
  return value;
}

/// 0, in a way that the compiler cannot see.
GSCHED_DEVICE std::uint32_t no_request() {
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

/// Whether this is the first active thread of its warp.
GSCHED_DEVICE bool is_first_here() {
  return (thread_of_block() & 31) ==
         static_cast<unsigned>(__ffs(static_cast<int>(__activemask())) - 1);
}

struct together {};

/// A check that does nothing; preempt_check.cuh has one that checks.
struct unchecked {
  using place = std::nullptr_t;
  GSCHED_DEVICE explicit unchecked(place) {}
  GSCHED_DEVICE void start() {}
  GSCHED_DEVICE bool warp_arrives(preemption_slot&, unsigned) { return true; }
  GSCHED_DEVICE bool all_arrive(preemption_slot&, const std::uint32_t&, unsigned) { return true; }
};

/// The state of a thread in a preemptible kernel. `exited` is a word in shared memory: whether a
/// warp of the block has exited early.
///
/// The first warp polls the flag, and the other warps poll `exited`, because thousands of warps
/// that read the flag would delay each other. At a checkpoint, each warp acts on the value that it
/// requested at the previous checkpoint, independently of other warps: the block's barriers no
/// longer count a warp that has exited. The first warp that exits sets `exited` and appends the
/// block to the list, once.
///
/// Order    a warp writes `exited` before it exits, and a barrier counts an exit like an arrival.
///          After a barrier with missing threads, `exited` is therefore visible. It does not change
///          until the next barrier, because all remaining threads go to that one.
template <class Check>
class preemptible_block {
public:
  GSCHED_DEVICE preemptible_block(const preemption& p, std::uint32_t& exited,
                                  typename Check::place place)
      : p_(p), exited_(exited), check_(place), block_(blockIdx), where_(&exited) {}

  /// On the first line: whether the block returns now, because the flag is set or the block has
  /// already run.
  GSCHED_DEVICE bool exits_at_start() { return returns_at_start(true); }

  /// On the first line of a kernel that is preempted at its first checkpoint: whether the block has
  /// already run. Requests the flag's value without waiting for it. A kernel that must not be
  /// preempted at checkpoints reads the flag here.
  GSCHED_DEVICE bool has_no_work() {
    const bool returns = returns_at_start(p_.preemptible == preemptibility::between_blocks);
    requested_together_ = request(where_);
    return returns;
  }

  /// After the first line, if that line has not requested the value.
  GSCHED_DEVICE void request_first() {
    requested_together_ = request_if_used(polls_flag() ? p_.flag : nullptr);
  }

  [[nodiscard]] GSCHED_DEVICE uint3 block() const { return block_; }
  [[nodiscard]] GSCHED_DEVICE bool is_resumed() const { return resumed_; }

  /// Independently for each warp.
  [[nodiscard]] GSCHED_DEVICE bool exits(unsigned line) {
    if (p_.flag != nullptr && !check_.warp_arrives(*p_.slot, line)) return false;
    if (requested_ != 0) return true;
    begun_ = true;
    requested_ = request(where_);
    return false;
  }
  /// All threads of the block together.
  [[nodiscard]] GSCHED_DEVICE bool exits(unsigned line, together) {
    return p_.flag != nullptr && exits_at_barrier(line);
  }

  /// A counting barrier. If some warps have exited at their own checkpoint, the remaining ones exit
  /// as well.
  [[nodiscard]] GSCHED_DEVICE bool exits_at_barrier(unsigned line) {
    if (p_.flag != nullptr && !check_.all_arrive(*p_.slot, exited_, line)) return false;
    const bool all_stay =
        __syncthreads_count(requested_together_ == 0) == static_cast<int>(threads_of_block());
    if (!all_stay && p_.flag != nullptr) { // or threads are missing because they have returned
      some_exited_ = request(&exited_) != 0;
      if (__syncthreads_or(requested_together_ != 0 || some_exited_) != 0) return true;
    }
    begun_ = true;
    requested_together_ = request(where_);
    return false;
  }

  template <class... Together>
  [[nodiscard]] GSCHED_DEVICE bool exits_every(std::uint32_t n, unsigned line, Together... how) {
    if (++passes_ < n) return false;
    passes_ = 0;
    return exits(line, how...);
  }

  /// For a block whose threads exit together: whether all of them have progress to save.
  [[nodiscard]] GSCHED_DEVICE bool can_save() const { return begun_ && !some_exited_; }

  /// Progress that an earlier launch saved remains valid if the block saves nothing now.
  GSCHED_DEVICE void record_exit(bool saves) const {
    if (some_exited_ || !is_first_here() || atomicExch(&exited_, 1u) != 0) return;
    __threadfence_block();
    list(saves && begun_);
  }

private:
  /// `may_exit`: reads the flag and waits for its value.
  GSCHED_DEVICE bool returns_at_start(bool may_exit) {
    begun_ = may_exit;
    exited_ = 0;
    if (p_.flag == nullptr) return false;
    check_.start();
    std::uint32_t flag = 0;
    std::uint32_t state = 0;
    if (is_first_thread()) {
      if (may_exit) flag = request(p_.flag);
      if (p_.resumes) state = load_word(&p_.slot->state);
    }
    where_ = polled_word();
    if (!may_exit && !p_.resumes) { // no value to wait for
      __syncthreads();
      return false;
    }
    if (__syncthreads_or(static_cast<int>(flag | state)) == 0) return false;
    if (p_.resumes) {
      if (!find_block()) return true;
      if (!may_exit || __syncthreads_or(static_cast<int>(flag)) == 0) return false;
    }
    if (is_first_thread()) list(false);
    return true;
  }

  /// Whether this thread polls the flag at checkpoints. No thread does if the kernel is preempted
  /// between blocks.
  [[nodiscard]] GSCHED_DEVICE bool polls_flag() const {
    return thread_of_block() < 32 && p_.preemptible == preemptibility::at_checkpoints;
  }
  [[nodiscard]] GSCHED_DEVICE const std::uint32_t* polled_word() const {
    return polls_flag() ? p_.flag : &exited_;
  }

  /// Appends the block to the list. Runs in one thread; the load and the add are in flight
  /// together, which costs one trip to L2.
  GSCHED_DEVICE void list(bool saved) const {
    saved |= resumed_;
    const std::uint32_t state = load_word(&p_.slot->state); // 0: a launch of the whole grid
    std::uint32_t* const lists = p_.slot->lists;
    const std::uint32_t at = atomicAdd(&p_.slot->preempted, 1);
    list_of(lists, state ^ resumption::second)[at] = // the list that is not being read
        linear(block_) | (saved ? resumption::begun : 0);
    if (saved) p_.slot->begun = 1;
  }

  [[nodiscard]] GSCHED_DEVICE std::uint32_t* list_of(std::uint32_t* lists,
                                                     std::uint32_t state) const {
    return lists + ((state & resumption::second) != 0 ? p_.blocks : 0);
  }

  /// Sets block_ to the block to run, in a launch of remaining blocks; false if there is none. The
  /// state is constant during a launch, so each thread reads it by itself.
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
  std::uint32_t& exited_;
  [[no_unique_address]] Check check_;
  uint3 block_;
  const std::uint32_t* where_;
  // The values requested last, for each kind of checkpoint. A value must be tested at the next
  // checkpoint and not where it arrives, and the loop must not wait for it. What the compiler
  // generates depends on what it knows of the initial value, so there are two variables;
  // bench/cuda/preemption shows the difference.
  std::uint32_t requested_ = no_request();
  std::uint32_t requested_together_ = 0;
  std::uint32_t passes_ = 0;
  bool begun_ = false;
  bool resumed_ = false;
  bool some_exited_ = false; ///< some warps exited before the others could exit together
};

#undef GSCHED_DEVICE

} // namespace gsched::cuda::detail

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/preempt/preemption.hpp>

#include <cuda_runtime_api.h> // __host__, __device__

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace gsched::cuda {

/// The end word of a segment of preemptible kernels, decoded. The word is in pinned memory. The
/// host clears it before a launch, and the marker, the last node of the graph, sets it.
struct preemption_end {
  enum class kind : std::uint8_t {
    running,   ///< the word is 0
    ended,     ///< the word is 1, as for any segment: all kernels have ended
    preempted, ///< the first `operations` kernels have ended, the next one has not
    divergent  ///< a kernel compiled with GSCHED_PREEMPT_CHECK has a checkpoint at `line` that not
               ///< all threads of a block reach; the block was not preempted there
  };
  kind what = kind::running;
  std::uint32_t operations = 0; ///< preempted: operations that have ended; divergent: the operation
  std::uint32_t line = 0;       ///< divergent: line of the source file

  [[nodiscard]] static constexpr preemption_end of(std::uint64_t word) noexcept {
    constexpr std::uint64_t low = 0xffff'ffff;
    if (word == 0) return {};
    if (word == 1) return {kind::ended, 0, 0};
    const auto operations = static_cast<std::uint32_t>((word & low) - 2);
    if (word > low) return {kind::divergent, operations, static_cast<std::uint32_t>(word >> 32)};
    return {kind::preempted, operations, 0};
  }
  [[nodiscard]] __host__ __device__ static constexpr std::uint64_t
  word_of_preempted(std::uint32_t operations) noexcept {
    return std::uint64_t{2} + operations;
  }
  [[nodiscard]] __host__ __device__ static constexpr std::uint64_t
  word_of_divergent(std::uint32_t operation, std::uint32_t line) noexcept {
    return std::uint64_t{line} << 32 | (std::uint64_t{2} + operation);
  }
};

/// The next `state` of a kernel after a launch has ended (P3 below).
///
/// `state` is what the launch had to run, `preempted` how many of its blocks were preempted,
/// `begun` whether any of them saved its progress, `blocks` the size of the grid.
[[nodiscard]] __host__ __device__ constexpr std::uint32_t
state_after(std::uint32_t state, std::uint32_t preempted, bool begun, std::uint32_t blocks,
            bool behind_an_unfinished_one) noexcept {
  if (preempted == 0) return behind_an_unfinished_one ? resumption::some : 0;
  if (preempted == blocks && !begun) return 0;
  return resumption::some | (~state & resumption::second) | preempted;
}

/// The number of blocks of a preempted kernel that have ended, given its next `state` and the size
/// of the grid. 0 if the whole grid runs next.
[[nodiscard]] __host__ __device__ constexpr std::uint32_t ended_of(std::uint32_t state,
                                                                   std::uint32_t blocks) noexcept {
  return (state & resumption::some) != 0 ? blocks - (state & resumption::count) : 0;
}

/// The slots of consecutive kernels, such as all kernels of a program, in device memory.
///
/// A kernel has one slot, which all graphs that contain it share: one graph's launch may be
/// preempted, and another graph may run the remaining blocks. At most one launch of a kernel may
/// therefore be in flight.
///
/// The protocol of a segment, a graph of preemptible kernels with one flag and a marker
/// (add_preemption_marker) at its end:
///  P1 flag     The host sets the flag at any time. It clears the flag when no launch of a graph
///              that reads it is in flight, which the end words show. All writes go through one
///              stream, so that a pending write of 1 cannot follow the clearing write, and launches
///              wait for that stream. A kernel that follows an unfinished one therefore finds the
///              flag set in all of its blocks, and none of them begins. This holds for preemptible
///              kernels only: a copy between two of them would run.
///  P2 blocks   A preempted block adds 1 to `preempted` and appends itself to the list that is not
///              being read. A block that ends writes nothing.
///  P3 marker   The marker updates each kernel of the segment. If blocks were preempted, they
///              become the next blocks to run (`state`); if all blocks were preempted and none had
///              begun, the whole grid runs next. If no block was preempted, nothing is left to run
///              where an earlier kernel is unfinished (branches of a graph end in any order), and
///              else the whole grid runs next. The marker clears `preempted` and `begun`. It then
///              writes the end word, with release at system scope if it wrote any of this.
///  P4 resume   The host reads the word with acquire and launches the rest: a graph that begins
///              with the first unfinished kernel, whose kernels have preemption::resumes. Behind
///              that kernel, in a chain, all kernels run their whole grid and do not need
///              `resumes`. Block i runs the i-th block of the list; blocks beyond the length of the
///              list end at once.
///
/// Units    a grid has at most max_preemptible_blocks; a slot takes 8 bytes for each block.
/// Errors   bad_option for larger grids; device_failed with CUDA's message if memory is short.
/// Threads  one owner.
class preemption_slots {
public:
  /// Makes one slot for each element: the number of blocks, or 0 for operations without a slot.
  /// Does not wait for the GPU.
  explicit preemption_slots(std::span<const std::uint64_t> blocks);
  ~preemption_slots();
  preemption_slots(preemption_slots&&) noexcept;
  preemption_slots& operator=(preemption_slots&&) noexcept;

  [[nodiscard]] std::size_t size() const noexcept;
  /// The parameter of kernel i: `captured` with its slot and `flag`, a device pointer.
  [[nodiscard]] preemption fill(const preemption& captured, std::size_t i,
                                const std::uint32_t* flag, bool resumes) const noexcept;
  /// Device pointer to the slots, in order.
  [[nodiscard]] preemption_slot* data() const noexcept;
  /// Discards the remaining blocks of all kernels: the next launches run whole grids. For abandoned
  /// work, of which nothing may be in flight. Waits for its copies. Returns the number of blocks
  /// that had ended and will run again.
  std::uint64_t reset();
  /// Device memory in use, in bytes.
  [[nodiscard]] std::size_t memory() const noexcept;
  /// Disables all freeing from now on, because the GPU may still write.
  void abandon() noexcept;

private:
  struct state;
  std::unique_ptr<state> state_;
};

} // namespace gsched::cuda

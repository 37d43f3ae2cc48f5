// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/preemption.hpp>

#include <cuda_runtime_api.h> // __host__, __device__

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace gsched::cuda {

/// What a segment of leaving kernels tells in its end word, in pinned memory: the host clears the
/// word before a launch, and the marker, the graph's last node, sets it.
struct preemption_end {
  enum class kind : std::uint8_t {
    running,  ///< the word is 0
    ended,    ///< all kernels have: the word is 1, as of any segment
    left,     ///< the first `operations` kernels have ended, the next one has not
    divergent ///< a kernel compiled with GSCHED_PREEMPT_CHECK has a checkpoint at `line` that not
              ///< all threads of a block reach; it has not left there
  };
  kind what = kind::running;
  std::uint32_t operations = 0; ///< of left: that have ended. Of divergent: which it is
  std::uint32_t line = 0;       ///< of its source file

  [[nodiscard]] static constexpr preemption_end of(std::uint64_t word) noexcept {
    constexpr std::uint64_t low = 0xffff'ffff;
    if (word == 0) return {};
    if (word == 1) return {kind::ended, 0, 0};
    const auto operations = static_cast<std::uint32_t>((word & low) - 2);
    if (word > low) return {kind::divergent, operations, static_cast<std::uint32_t>(word >> 32)};
    return {kind::left, operations, 0};
  }
  [[nodiscard]] __host__ __device__ static constexpr std::uint64_t
  word_of_left(std::uint32_t operations) noexcept {
    return std::uint64_t{2} + operations;
  }
  [[nodiscard]] __host__ __device__ static constexpr std::uint64_t
  word_of_divergent(std::uint32_t operation, std::uint32_t line) noexcept {
    return std::uint64_t{line} << 32 | (std::uint64_t{2} + operation);
  }
};

/// P3 below: what is to run next of a kernel of which, in the launch that has ended, `left` blocks
/// have left, with something saved (`begun`) or not; of which it was to run `state`, and whose grid
/// has that many blocks.
[[nodiscard]] __host__ __device__ constexpr std::uint32_t
state_after(std::uint32_t state, std::uint32_t left, bool begun, std::uint32_t blocks,
            bool behind_an_unfinished_one) noexcept {
  if (left == 0) return behind_an_unfinished_one ? resumption::some : 0;
  if (left == blocks && !begun) return 0;
  return resumption::some | (~state & resumption::second) | left;
}

/// How many blocks of a kernel that has left have ended: of a grid of that many, of which `state`
/// is to run next. 0 where all of the grid is.
[[nodiscard]] __host__ __device__ constexpr std::uint32_t ended_of(std::uint32_t state,
                                                                   std::uint32_t blocks) noexcept {
  return (state & resumption::some) != 0 ? blocks - (state & resumption::count) : 0;
}

/// Slots of consecutive kernels, such as all of a program, in device memory. A kernel has one slot
/// in whatever graphs it is: one launch may leave, and another graph's run what is left. So of all
/// launches of one kernel at most one is under way.
///
/// Who writes what, for a segment that is a graph of leaving kernels, with a flag, and a marker
/// (add_preemption_marker) behind all of them:
///  P1 flag     The host sets it whenever it likes, and clears it when no launch of a graph that
///  has
///              it is under way, which it knows by their end words. Both go through one stream, as
///              a write of 1 still under way could come after the clearing one; and launches wait
///              for that stream. So a kernel that finds what is before it unfinished finds the flag
///              set, in all its blocks, and none of them begins. That holds of leaving kernels
///              alone: a copy between two of them would not leave.
///  P2 blocks   A block that leaves adds 1 to `left` and itself to the list that is not being read.
///              One that ends writes nothing.
///  P3 marker   For each kernel of the segment: where blocks have left, it makes them what is to
///              run (`state`), but where all did and none had begun, that is all of the grid. Where
///              none have left: nothing, if an earlier kernel is unfinished (branches of a graph
///              end in any order); all of the grid, if none is. It clears `left` and `begun`. Then
///              it tells, with release at system scope if it wrote any of this.
///  P4 resuming The host has read the word, with acquire, and launches what is left: a graph that
///              begins with the first unfinished kernel, and whose kernels have
///              preemption::resumes; behind that one, in a chain, no other has anything left but
///              all of its grid, so they can do without. A block runs the block that the list names
///              at its place, and those beyond the list's length end at once.
///
/// Units    a grid has at most max_leaving_blocks; a slot takes 8 bytes a block.
/// Errors   bad_option for larger grids; device_failed, with CUDA's words, where memory is short.
/// Threads  one owner.
class preemption_slots {
public:
  /// A slot for each, by the number of blocks; 0 for operations that need none. Waits for nothing
  /// that the GPU is doing.
  explicit preemption_slots(std::span<const std::uint64_t> blocks);
  ~preemption_slots();
  preemption_slots(preemption_slots&&) noexcept;
  preemption_slots& operator=(preemption_slots&&) noexcept;

  [[nodiscard]] std::size_t size() const noexcept;
  /// The parameter of kernel i: as it was captured, with the slot and that flag, in device memory.
  [[nodiscard]] preemption fill(const preemption& captured, std::size_t i,
                                const std::uint32_t* flag, bool resumes) const noexcept;
  /// As the device sees them, in order.
  [[nodiscard]] preemption_slot* data() const noexcept;
  /// Forgets what is left, of all kernels: the next launches run all blocks. For work that is given
  /// up; nothing of it may be under way. Waits for the copies. Returns how many blocks had ended
  /// that will run again, as others of their kernels had left.
  std::uint64_t reset();
  /// Device memory, in bytes.
  [[nodiscard]] std::size_t memory() const noexcept;
  /// Frees nothing from now on: for a GPU that may still write.
  void leave_behind() noexcept;

private:
  struct state;
  std::unique_ptr<state> state_;
};

} // namespace gsched::cuda

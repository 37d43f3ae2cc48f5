// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/job/operation.hpp>

#include <cstdint>
#include <type_traits>

namespace gsched::cuda {

/// The preemption state of one kernel, in device memory owned by preemption_slots. During a launch
/// the blocks write the first three words and a list. The marker kernel writes the rest between two
/// launches. preemption_slots.hpp defines the protocol.
struct alignas(32) preemption_slot {
  std::uint32_t preempted = 0;    ///< blocks preempted in this launch
  std::uint32_t begun = 0;        ///< not 0: some of them have saved their progress
  std::uint32_t trouble = 0;      ///< not 0: a source line; see GSCHED_PREEMPT_CHECK
  std::uint32_t state = 0;        ///< the blocks to run next: see resumption
  std::uint32_t* lists = nullptr; ///< two lists, each with one word for each block of the grid
  std::uint32_t blocks = 0;       ///< of the grid
};
static_assert(sizeof(preemption_slot) == 32);

/// The encoding of preemption_slot::state. 0: all blocks of the grid. Else: the blocks of one of
/// the lists, which may be empty if the kernel has ended and an earlier kernel of its segment has
/// not.
struct resumption {
  static constexpr std::uint32_t some = std::uint32_t{1} << 31;   ///< a list, not the whole grid
  static constexpr std::uint32_t second = std::uint32_t{1} << 30; ///< the second list
  static constexpr std::uint32_t count = second - 1;              ///< mask: length of the list
  /// In an element of a list: the block has saved its progress.
  static constexpr std::uint32_t begun = some;
};

/// The largest preemptible grid, in blocks.
inline constexpr std::uint32_t max_preemptible_blocks = resumption::count;

/// The parameter that tells a kernel to yield the GPU. The first line of the kernel is
/// GSCHED_PREEMPTIBLE(parameter), of preempt.cuh.
///
/// A default-constructed parameter disables preemption. The caller that launches or captures the
/// kernel passes preemption::between_blocks() or preemption::at_checkpoints(), which describes the
/// kernel's source. A device finds the parameter among a node's parameters by its size and mark,
/// and sets flag and slot in the graphs that it builds.
struct preemption {
  static constexpr std::uint64_t mark_value = 0x6773'6368'6564'0101; // "gsched", kind 1, version 1

  std::uint64_t mark = mark_value;
  const std::uint32_t* flag = nullptr; ///< device pointer; blocks exit if it is not 0; null: never
  preemption_slot* slot = nullptr;     ///< device pointer; null: blocks never exit early
  std::uint32_t blocks = 0;            ///< of the grid
  std::uint32_t checkpoint_ns = 0;     ///< time between two checkpoints of a block; 0: unknown
  preemptibility preemptible = preemptibility::never;
  /// Whether this launch runs the remaining blocks of an earlier one. Reading which costs each
  /// block a trip to L2 at its start; graphs that only run whole grids leave it false.
  bool resumes = false;
  std::uint8_t unused[6] = {};

  /// Running blocks run to their end: for kernels without checkpoints, or with unsafe ones.
  [[nodiscard]] static constexpr preemption between_blocks() noexcept {
    preemption p;
    p.preemptible = preemptibility::between_blocks;
    return p;
  }
  /// Running blocks exit at GSCHED_CHECKPOINTs in the kernel's loops, which are about `apart`
  /// apart.
  [[nodiscard]] static constexpr preemption at_checkpoints(duration apart = {}) noexcept {
    preemption p;
    p.preemptible = preemptibility::at_checkpoints;
    p.checkpoint_ns = static_cast<std::uint32_t>(apart.count());
    return p;
  }
};

static_assert(sizeof(preemption) == 40 && std::is_trivially_copyable_v<preemption>);

} // namespace gsched::cuda

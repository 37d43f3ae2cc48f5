// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/job/operation.hpp>

#include <cstdint>
#include <type_traits>

namespace gsched::cuda {

/// What is kept of a kernel that can leave, in device memory; preemption_slots owns it. Of a launch
/// under way the blocks write the first three words and a list; all else is written between two
/// launches, by the kernel that ends their segment. preemption_slots.hpp says when and what.
struct alignas(32) preemption_slot {
  std::uint32_t left = 0;         ///< blocks that have left in this launch
  std::uint32_t begun = 0;        ///< not 0: some of them have saved what they had done
  std::uint32_t trouble = 0;      ///< not 0: a line of source; see GSCHED_PREEMPT_CHECK
  std::uint32_t state = 0;        ///< what is to run: see resumption
  std::uint32_t* lists = nullptr; ///< two, of as many words as the grid has blocks
  std::uint32_t blocks = 0;       ///< of the grid
};
static_assert(sizeof(preemption_slot) == 32);

/// The word preemption_slot::state: 0 is all blocks of the grid; else those of one of the lists,
/// of which there may be none, as the kernel had ended but an earlier one of its segment had not.
struct resumption {
  static constexpr std::uint32_t some = std::uint32_t{1} << 31;   ///< not all
  static constexpr std::uint32_t second = std::uint32_t{1} << 30; ///< of the second list
  static constexpr std::uint32_t count = second - 1;              ///< how many
  /// In a list: the block has saved what it had done.
  static constexpr std::uint32_t begun = some;
};

/// Largest grid that can leave, in blocks.
inline constexpr std::uint32_t max_leaving_blocks = resumption::count;

/// The parameter by which a kernel learns that it shall leave: its first line is
/// GSCHED_PREEMPTIBLE(that parameter), of preempt.cuh. As made by its default constructor it never
/// leaves. Who launches or captures a kernel says how it leaves, which is a property of its source:
/// preemption::between_blocks() or preemption::at_checkpoints(). A device finds the parameter among
/// a node's parameters by size and mark, and puts in flag and slot in graphs that it builds.
struct preemption {
  static constexpr std::uint64_t mark_value = 0x6773'6368'6564'0101; // "gsched", another, version 1

  std::uint64_t mark = mark_value;
  const std::uint32_t* flag = nullptr; ///< device pointer: blocks leave if it is not 0; null: never
  preemption_slot* slot = nullptr;     ///< device pointer; null: blocks never leave
  std::uint32_t blocks = 0;            ///< of the grid
  std::uint32_t checkpoint_ns = 0;     ///< between two checkpoints of a block; 0: not known
  leaving leaves = leaving::never;
  /// Whether this launch looks for what an earlier one left undone. The blocks wait for that at
  /// their start, a trip to L2; graphs that are only launched to run all of a kernel do without.
  bool resumes = false;
  std::uint8_t unused[6] = {};

  /// Blocks that have begun end: of a kernel without checkpoints, or one that must not leave there.
  [[nodiscard]] static constexpr preemption between_blocks() noexcept {
    preemption p;
    p.leaves = leaving::between_blocks;
    return p;
  }
  /// Of a kernel with GSCHED_CHECKPOINT in its loops, about that far apart.
  [[nodiscard]] static constexpr preemption at_checkpoints(duration apart = {}) noexcept {
    preemption p;
    p.leaves = leaving::at_checkpoints;
    p.checkpoint_ns = static_cast<std::uint32_t>(apart.count());
    return p;
  }
};

static_assert(sizeof(preemption) == 40 && std::is_trivially_copyable_v<preemption>);

} // namespace gsched::cuda

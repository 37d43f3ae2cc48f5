// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace gsched::cuda {

/// Where a gate stands in a range of a program. Operations are numbered from the range's first.
struct planned_gate {
  std::uint32_t beside = 0;           ///< it starts when this operation does
  std::vector<std::uint32_t> waits{}; ///< operations that end before it starts
  std::vector<std::uint32_t> holds{}; ///< operations that wait for it
  /// While it stands, operations that started before it may still run: the longest takes this.
  duration takes{};
  /// Where it stands, the next gate stands as soon as those operations have ended.
  bool followed = false;
};

/// Places gates in a range, so that a range that is held stops soon and a range that is not held
/// loses nothing.
///
/// A gate belongs to an instant of the schedule in which every operation starts as soon as the
/// operations before it have ended. It waits for what has ended by then; what starts later waits
/// for it; what runs at that instant is left alone. In a chain this is a gate beside one operation:
/// it waits for the operation before, and the next operation waits for it. Where the range forks,
/// its branches do not wait for one another at a gate, but for operations that end and start within
/// `slack` of each other: those that start so soon after the instant are not held by this gate.
///
/// Order    a gate comes after `every` operations have started since the former one, on each branch
///          that runs then; never before the second operation, and never with nothing to hold.
/// Bound    of all gates, two consecutive ones at most can stand at once.
/// Units    `times`: what each operation takes. `after`: for each operation those of the range that
///          it waits for, smaller than itself.
/// Cost     O(operations log operations + dependencies), and for each gate what runs then.
[[nodiscard]] std::vector<planned_gate>
plan_gates(std::span<const std::vector<std::uint32_t>> after, std::span<const duration> times,
           unsigned every, duration slack = std::chrono::nanoseconds{2000});

} // namespace gsched::cuda

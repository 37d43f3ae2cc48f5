// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace gsched::cuda {

/// A gate of a range. Operations are numbered from the start of the range.
struct planned_gate {
  std::uint32_t beside = 0;           ///< the gate starts together with this operation
  std::vector<std::uint32_t> waits{}; ///< operations that the gate depends on
  std::vector<std::uint32_t> holds{}; ///< operations that depend on the gate
  /// The longest operation that may still run when the gate closes.
  duration takes{};
  /// While this gate is closed, the next gate closes as soon as those operations have ended.
  bool followed = false;
};

/// Places gates in a range, so that a held range stops soon and a range that is not held loses no
/// time.
///
/// A gate has a time in the schedule in which each operation starts as early as its dependencies
/// allow. It depends on operations that have ended by then. Operations that start later depend on
/// it, and those that run at that time do neither. In a chain, a gate beside an operation depends
/// on the previous operation, and the next operation depends on the gate. In a range that forks,
/// the gate must not make branches wait for each other: operations that start within `slack` after
/// its time are not held. Only operations that end and start within `slack` of each other may
/// become ordered.
///
/// Order    a gate follows the last one after `every` operations on each branch that runs then. No
///          gate is before the second operation, and none holds nothing.
/// Bound    at most two gates, consecutive ones, can be closed at once.
/// Units    `times`: the duration of each operation. `after`: for each operation its dependencies
///          in the range, with smaller numbers.
/// Cost     O(operations log operations + dependencies), plus, for each gate, the operations that
///          run at its time.
[[nodiscard]] std::vector<planned_gate>
plan_gates(std::span<const std::vector<std::uint32_t>> after, std::span<const duration> times,
           unsigned every, duration slack = std::chrono::nanoseconds{2000});

} // namespace gsched::cuda

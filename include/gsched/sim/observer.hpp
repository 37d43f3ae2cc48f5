// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/id.hpp>
#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/job/operation.hpp>

#include <cstdint>

namespace gsched::sim {

/// One operation during its execution on a simulated device.
struct operation_mark {
  segment_id segment{};
  job_id owner{};
  lane_id lane{};
  std::uint32_t operation = 0; ///< index within the segment
  const gsched::operation* work = nullptr;
};

/// Callbacks for the events of a simulated device, in order of virtual time; null: not observed.
/// Without an observer an event costs one test.
///
/// Order    an operation starts when its first blocks are placed or its copy begins. A preempted
///          operation ends with the last of its blocks, and starts again when the rest is run.
/// Errors   a callback must neither call the device nor throw.
struct observer {
  void* self = nullptr;
  void (*started)(void* self, time_point at, const operation_mark& m) noexcept = nullptr;
  void (*ended)(void* self, time_point at, const operation_mark& m) noexcept = nullptr;
  /// The number of SMs that hold at least one block, whenever it changes.
  void (*occupied)(void* self, time_point at, sm_count sms) noexcept = nullptr;
  /// Blocks [first, first + n) of a kernel have run to their end; blocks that exited early are not
  /// included.
  void (*blocks)(void* self, time_point at, const operation_mark& m, std::uint64_t first,
                 std::uint64_t n) noexcept = nullptr;
};

} // namespace gsched::sim

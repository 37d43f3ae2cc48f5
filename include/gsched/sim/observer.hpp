// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/id.hpp>
#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>
#include <gsched/job/operation.hpp>

#include <cstdint>

namespace gsched::sim {

/// One operation on its way through a simulated device.
struct operation_mark {
  segment_id segment{};
  job_id owner{};
  lane_id lane{};
  std::uint32_t operation = 0; ///< within the segment
  const gsched::operation* work = nullptr;
};

/// Hears what a simulated device does, in order of virtual time; null where it does not listen. A
/// device that nobody listens to pays one test an event.
///
/// Order    an operation starts when its first blocks are placed or its copy begins. One whose
///          blocks leave ends with the last of them, and starts again when the rest is run.
/// Errors   a listener must not call the device, nor throw.
struct observer {
  void* self = nullptr;
  void (*started)(void* self, time_point at, const operation_mark& m) noexcept = nullptr;
  void (*ended)(void* self, time_point at, const operation_mark& m) noexcept = nullptr;
  /// SMs that hold at least one block, whenever that changes.
  void (*occupied)(void* self, time_point at, sm_count sms) noexcept = nullptr;
  /// Blocks [first, first + n) of a kernel have run to their end: those that leave before have not.
  void (*blocks)(void* self, time_point at, const operation_mark& m, std::uint64_t first,
                 std::uint64_t n) noexcept = nullptr;
};

} // namespace gsched::sim

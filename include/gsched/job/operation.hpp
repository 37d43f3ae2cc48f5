// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/id.hpp>
#include <gsched/core/inline_vector.hpp>
#include <gsched/core/launch.hpp>
#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>

#include <cstdint>
#include <type_traits>

namespace gsched {

enum class operation_kind : std::uint8_t {
  kernel,
  memcpy,
  memset,
  event_record,  ///< completes when all earlier work of its stream has ended
  event_wait,    ///< completes when the event's latest earlier record has completed
  host_function, ///< runs on the host, in stream order
};

enum class copy_direction : std::uint8_t {
  host_to_device,
  device_to_host,
  device_to_device,
  host_to_host,
};

/// The points at which a kernel can be preempted. Only its unfinished blocks run later.
enum class preemptibility : std::uint8_t {
  never,          ///< none: a kernel that has started runs to its end
  between_blocks, ///< blocks that have not started exit at once; running blocks end
  at_checkpoints  ///< running blocks exit too, at their next checkpoint
};

/// The time of an operation that runs alone on a partition of this many SMs.
struct scaling_point {
  sm_count sms{};
  duration time{};
  bool operator==(const scaling_point&) const noexcept = default;
};

/// A host function of a stream. It must neither block nor throw.
struct host_call {
  void (*function)(void* argument) noexcept = nullptr;
  void* argument = nullptr;
  bool operator==(const host_call&) const noexcept = default;
};

/// One unit of device work as a job launches it: immutable after the launch, copied as plain bytes.
///
/// Units    `expected` is the time alone on all SMs of the device; zero: not known.
/// Threads  a value.
struct operation {
  operation_kind kind = operation_kind::kernel;
  copy_direction direction = copy_direction::host_to_device; ///< memcpy
  preemptibility preemptible = preemptibility::never;        ///< kernel
  std::uint32_t max_blocks_per_sm = 0; ///< as the driver reports it; 0: not known
  kernel_id kernel = no_kernel;        ///< identifies the function; estimates are kept for each
  event_id event = no_event;           ///< event_record, event_wait
  byte_count bytes{};                  ///< memcpy, memset
  launch_shape launch{};               ///< kernel
  duration expected{};
  /// preemptibility::at_checkpoints: time between two checkpoints of a block
  duration checkpoint{};
  inline_vector<scaling_point, 8> by_sms{}; ///< measured on partitions, by rising SMs; may be empty
  host_call call{};                         ///< host_function
  const void* handle = nullptr;             ///< what a real device launches; null in simulation

  bool is_device_work() const noexcept {
    return kind == operation_kind::kernel || kind == operation_kind::memcpy ||
           kind == operation_kind::memset;
  }
};

static_assert(std::is_trivially_copyable_v<operation>);

} // namespace gsched

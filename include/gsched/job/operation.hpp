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
  event_record,  ///< done when all earlier work of its stream is done
  event_wait,    ///< done when the event's last record before it is done
  host_function, ///< runs on the host, in stream order
};

enum class copy_direction : std::uint8_t {
  host_to_device,
  device_to_host,
  device_to_device,
  host_to_host,
};

/// Where a kernel can leave the GPU before it has ended, so that only the rest of it is run later.
enum class leaving : std::uint8_t {
  never,          ///< it knows nothing of preemption: what has started ends
  between_blocks, ///< blocks that have not started leave, those that have end
  at_checkpoints  ///< running blocks leave as well, at their next checkpoint
};

/// How long an operation takes alone on a partition of that many SMs.
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

/// One unit of device work as a job asks for it: immutable once launched, copied as plain bytes.
///
/// Units    expected is the time alone on all SMs of the device; zero says it is not known.
/// Threads  a value; whoever holds it may read it.
struct operation {
  operation_kind kind = operation_kind::kernel;
  copy_direction direction = copy_direction::host_to_device; ///< memcpy
  leaving leaves = leaving::never;                           ///< kernel
  std::uint32_t max_blocks_per_sm = 0; ///< as the driver counts it; 0 is not known
  kernel_id kernel = no_kernel;        ///< which function: estimates are kept for each
  event_id event = no_event;           ///< event_record, event_wait
  byte_count bytes{};                  ///< memcpy, memset
  launch_shape launch{};               ///< kernel
  duration expected{};
  duration checkpoint{}; ///< leaving::at_checkpoints: between two of them in a block
  inline_vector<scaling_point, 8> by_sms{}; ///< measured on partitions, SMs rising; may be empty
  host_call call{};                         ///< host_function
  const void* handle = nullptr;             ///< what a real device launches; null in simulation

  bool is_device_work() const noexcept {
    return kind == operation_kind::kernel || kind == operation_kind::memcpy ||
           kind == operation_kind::memset;
  }
};

static_assert(std::is_trivially_copyable_v<operation>);

} // namespace gsched

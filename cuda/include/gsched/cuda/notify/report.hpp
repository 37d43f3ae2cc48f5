// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

namespace gsched::cuda {

struct launch_counters; // in device memory; owned by notification_ring

/// The parameter that tells an instrumented kernel where to report. The first line of the kernel is
/// GSCHED_INSTRUMENT(parameter). A default-constructed report disables reporting: launch and
/// capture kernels with `{}`. A device finds the parameter among a node's parameters by its size
/// and mark, and replaces it in the graphs that it builds.
///
/// The struct holds all values that are constant while a slot is in use. Parameters are in the
/// constant bank: reading them costs no memory access and holds no register.
struct report {
  static constexpr std::uint64_t mark_value = 0x6773'6368'6564'0001; // "gsched", version 1

  std::uint64_t mark = mark_value;
  launch_counters* counters = nullptr; ///< device pointer; null: report nothing
  std::uint64_t* slots = nullptr;      ///< of the ring; device address of pinned memory
  std::uint64_t* ticket = nullptr;     ///< of the ring; device pointer
  std::uint32_t group = 0;             ///< blocks that one word covers
  std::uint32_t reciprocal = 0;        ///< reciprocal_of(group); zero for groups of one
  std::uint32_t slot_mask = 0;         ///< of a slot's offset in bytes
  std::uint32_t lap_shift = 0;         ///< shift from a ticket to its lap, less one
};

static_assert(sizeof(report) == 48 && std::is_trivially_copyable_v<report>);

} // namespace gsched::cuda

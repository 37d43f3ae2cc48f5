// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

namespace gsched::cuda {

struct launch_counters; // in device memory; notification_ring owns them

/// The parameter by which an instrumented kernel learns where to report: the kernel's first line is
/// GSCHED_INSTRUMENT(that parameter). As made by its default constructor it reports nothing, so
/// kernels are launched and captured with `{}`; a device puts its own in when it builds a graph of
/// the kernel, which it finds among a node's parameters by size and mark.
///
/// What never changes while a slot is in use lies here and not in device memory: parameters are in
/// the constant bank, where reading them costs neither a trip to memory nor a register held.
struct report {
  static constexpr std::uint64_t mark_value = 0x6773'6368'6564'0001; // "gsched", version 1

  std::uint64_t mark = mark_value;
  launch_counters* counters = nullptr; ///< device pointer; null: report nothing
  std::uint64_t* slots = nullptr;      ///< of the ring; pinned memory, as the device sees it
  std::uint64_t* ticket = nullptr;     ///< of the ring; device pointer
  std::uint32_t group = 0;             ///< blocks that a word covers
  std::uint32_t reciprocal = 0;        ///< reciprocal_of(group); zero for groups of one
  std::uint32_t slot_mask = 0;         ///< of a slot's offset in bytes
  std::uint32_t lap_shift = 0;         ///< from a ticket to its lap, less one
};

static_assert(sizeof(report) == 48 && std::is_trivially_copyable_v<report>);

} // namespace gsched::cuda

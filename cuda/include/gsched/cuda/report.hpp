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
struct report {
  static constexpr std::uint64_t mark_value = 0x6773'6368'6564'0001; // "gsched", version 1

  std::uint64_t mark = mark_value;
  launch_counters* counters = nullptr; ///< device pointer
};

static_assert(sizeof(report) == 16 && std::is_trivially_copyable_v<report>);

} // namespace gsched::cuda

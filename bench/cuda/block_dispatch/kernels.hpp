// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/notify/report.hpp>

namespace block_dispatch {

/// Parameters of the kernels: a block takes `cycles`; with a stride, each stride-th block takes
/// `factor` times as long.
struct hold_arguments {
  gsched::cuda::report to{}; ///< used by the instrumented kernel only
  long long cycles = 0;
  unsigned stride = 0;
  unsigned factor = 1;
};

/// For graphs: takes the members of hold_arguments in order. Both kernels are equal except for the
/// reports.
[[nodiscard]] const void* hold_kernel(bool instrumented) noexcept;

/// For graphs: takes (unsigned long long* count, unsigned long long* word); counts its launches,
/// one at a time, and stores the count to pinned memory.
[[nodiscard]] const void* tell_kernel() noexcept;

/// The largest dynamic shared memory of a block of the hold kernels, set once a GPU.
void allow_shared_memory();

} // namespace block_dispatch

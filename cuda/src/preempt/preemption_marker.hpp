// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/end/end_words.hpp"

#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/preempt/preemption_slots.hpp>

#include <cuda.h>

#include <cstddef>

namespace gsched::cuda {

/// As add_marker, for a graph of kernels [first, last) of `slots`, all of them preemptible. The
/// last node reports which kernels have ended (preemption_end), and prepares the slots for the
/// remaining blocks. `kind` is `publishes` or `stores` (marker.hpp); a preemption is always
/// reported with release.
///
/// Cost     a load from L2 more than the marker, and one more for each 128 kernels beyond 128.
void add_preemption_marker(const driver_functions& cu, CUgraph graph, marker kind,
                           const end_word& to, const preemption_slots& slots, std::size_t first,
                           std::size_t last, CUcontext place);

} // namespace gsched::cuda

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/end_words.hpp"

#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/preemption_slots.hpp>

#include <cuda.h>

#include <cstddef>

namespace gsched::cuda {

/// As add_marker, for a graph of kernels [first, last) of those slots, all of which leave: the last
/// node says which of them have ended (preemption_end), and prepares what is left to be run. Of the
/// two kinds, `publishes` and `tells`, by marker.hpp; `left` is told with release in any case.
///
/// Cost     a load from L2 more than the marker's; kernels beyond 128 one more for each 128.
void add_preemption_marker(const driver_functions& cu, CUgraph graph, marker kind,
                           const end_word& to, const preemption_slots& slots, std::size_t first,
                           std::size_t last, CUcontext place);

} // namespace gsched::cuda

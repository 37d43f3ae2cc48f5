// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

namespace gsched::cuda {

/// The store by which a marker reports the end of a graph.
///
/// Cost     publishes costs the GPU more than stores; counts adds a load from L2.
enum class marker {
  counts,    ///< increments the count in device memory and stores it to the word, with release
  publishes, ///< stores 1 to the word, with release
  stores     ///< stores 1 to the word, relaxed: publishes no other memory
};

/// A kernel of one thread with parameters (std::uint64_t* count, std::uint64_t* word); the word is
/// in pinned memory. As a CUkernel it can be placed on the SMs of any context.
[[nodiscard]] CUkernel marker_kernel(marker what);

} // namespace gsched::cuda

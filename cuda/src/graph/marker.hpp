// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

namespace gsched::cuda {

/// What the kernel does that ends a segment.
///
/// Cost     to release costs the GPU more than to tell, and to count a load from L2 on top.
enum class marker {
  counts,    ///< adds one to the count, in device memory, and stores it to the word, with release
  publishes, ///< stores 1 to the word, with release
  tells      ///< stores 1 to the word, which says nothing of other memory
};

/// A kernel of one thread: (std::uint64_t* count, std::uint64_t* word), the word in pinned memory.
/// As a CUkernel it can be placed on the SMs of any context.
[[nodiscard]] CUkernel marker_kernel(marker what);

} // namespace gsched::cuda

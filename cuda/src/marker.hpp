// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

namespace gsched::cuda {

/// A kernel of one thread that ends a segment: (std::uint64_t* count, std::uint64_t* word) adds one
/// to the count, in device memory, and stores it to the word, in pinned memory, with release. As a
/// CUkernel it can be placed on the SMs of any context.
[[nodiscard]] CUkernel marker_kernel();

} // namespace gsched::cuda

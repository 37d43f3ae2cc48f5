// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <cstdint>

namespace gsched::cuda {

/// A kernel of one thread that stores the GPU's clock, in nanoseconds: (std::uint64_t* to).
[[nodiscard]] CUfunction stamp_kernel();
/// A kernel of one thread that stores the smallest step it sees that clock take: (std::uint64_t*).
[[nodiscard]] CUfunction clock_step_kernel();

} // namespace gsched::cuda

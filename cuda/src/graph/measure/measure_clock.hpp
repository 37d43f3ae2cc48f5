// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <cstdint>

namespace gsched::cuda {

/// A kernel of one thread, (std::uint64_t* to), that stores the GPU's clock in nanoseconds.
[[nodiscard]] CUfunction stamp_kernel();
/// A kernel of one thread, (std::uint64_t* to), that stores the smallest step of that clock.
[[nodiscard]] CUfunction clock_step_kernel();

} // namespace gsched::cuda

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace common {

/// y = a x + y, on a stream.
void saxpy(float a, const float* x, float* y, std::size_t n, cudaStream_t stream);

/// One thread that spins for so many cycles.
void tick(unsigned cycles, cudaStream_t stream);

/// Bytes of scratch memory for sort_and_sum.
[[nodiscard]] std::size_t scratch_of_sort_and_sum(std::size_t n);

/// Sorts keys and sums them: cub::DeviceRadixSort, cub::DeviceReduce.
/// Throws gsched::error with CUDA's message.
void sort_and_sum(void* scratch, std::size_t scratch_bytes, const std::uint32_t* in,
                  std::uint32_t* sorted, std::uint32_t* sum, std::size_t n, cudaStream_t stream);

} // namespace common

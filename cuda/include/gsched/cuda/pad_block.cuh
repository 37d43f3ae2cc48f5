// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/launch.hpp>

#include <cstdint>
#include <type_traits>

namespace gsched::cuda {

/// What a paddable function knows of its block: in place of blockIdx, gridDim, threadIdx and
/// blockDim, which are those of the kernel that it is a part of.
struct pad_block {
  std::uint32_t index = 0;   ///< of the block in its own grid, x fastest
  extent grid{};             ///< of the function's launch
  std::uint32_t thread = 0;  ///< within the block, below `threads`
  std::uint32_t threads = 0; ///< of this function; the kernel may have more, which have left
  void* shared = nullptr;    ///< dynamic shared memory, all of this block's

  __device__ __forceinline__ std::uint32_t x() const { return index % grid.x; }
  __device__ __forceinline__ std::uint32_t y() const { return index / grid.x % grid.y; }
  __device__ __forceinline__ std::uint32_t z() const { return index / grid.x / grid.y; }

  template <class T>
  __device__ __forceinline__ T* shared_as() const {
    return static_cast<T*>(shared);
  }

  /// A barrier of this block's threads. __syncthreads() does as well: it waits for no thread that
  /// has left.
  __device__ __forceinline__ void sync() const {
    asm volatile("bar.sync 1, %0;" ::"r"(threads) : "memory");
  }
};

/// A function that can be a part of a padded kernel: its arguments are its members, and
///
///   struct copy {
///     static constexpr std::uint32_t threads = 256;
///     const float4* from; float4* to; std::uint32_t n;
///     __device__ __forceinline__ void operator()(const gsched::cuda::pad_block& b) const;
///   };
///
/// Differs  from a kernel: its block has one dimension, a multiple of 32 threads known when it is
///          compiled, or threads = 0 and each launch says how many; what it declares __shared__
///          every kernel of its family has, so shared memory is better taken from the block. It
///          must be inlined: were it called, it could not use the registers that its kernel has.
template <class F>
concept paddable = std::is_trivially_copyable_v<F> && alignof(F) <= 16 && F::threads <= 1024 &&
                   F::threads % 32 == 0;

} // namespace gsched::cuda

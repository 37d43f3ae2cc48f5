// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/launch.hpp>

#include <cstdint>
#include <type_traits>

namespace gsched::cuda {

/// The block of a paddable function. It replaces blockIdx, gridDim, threadIdx and blockDim, which
/// are those of the padded kernel.
struct pad_block {
  std::uint32_t index = 0;   ///< of the block in the function's grid, x fastest
  extent grid{};             ///< of the function's launch
  std::uint32_t thread = 0;  ///< within the block, below `threads`
  std::uint32_t threads = 0; ///< of this function; the kernel's other threads have exited
  void* shared = nullptr;    ///< dynamic shared memory of the block

  __device__ __forceinline__ std::uint32_t x() const { return index % grid.x; }
  __device__ __forceinline__ std::uint32_t y() const { return index / grid.x % grid.y; }
  __device__ __forceinline__ std::uint32_t z() const { return index / grid.x / grid.y; }

  template <class T>
  __device__ __forceinline__ T* shared_as() const {
    return static_cast<T*>(shared);
  }

  /// A barrier of the block's threads. __syncthreads() also works: it does not wait for threads
  /// that have exited.
  __device__ __forceinline__ void sync() const {
    asm volatile("bar.sync 1, %0;" ::"r"(threads) : "memory");
  }
};

/// A function that can be part of a padded kernel. Its members are its arguments:
///
///   struct copy {
///     static constexpr std::uint32_t threads = 256;
///     const float4* from; float4* to; std::uint32_t n;
///     __device__ __forceinline__ void operator()(const gsched::cuda::pad_block& b) const;
///   };
///
/// Differs  from a kernel: the block has one dimension, with a multiple of 32 threads fixed at
///          compile time, or threads = 0 and each launch chooses. A __shared__ variable takes space
///          in every kernel of the family; use the block's dynamic shared memory instead. The
///          function must be inlined, because a called function cannot use the kernel's registers.
template <class F>
concept paddable = std::is_trivially_copyable_v<F> && alignof(F) <= 16 && F::threads <= 1024 &&
                   F::threads % 32 == 0;

} // namespace gsched::cuda

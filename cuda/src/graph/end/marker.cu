// SPDX-License-Identifier: Apache-2.0
#include "graph/end/marker.hpp"

#include <gsched/cuda/error.hpp>

#include <cuda_runtime_api.h>

#include <cuda/atomic>

#include <cstdint>

namespace gsched::cuda {

namespace {

using system_word = ::cuda::atomic_ref<std::uint64_t, ::cuda::thread_scope_system>;

/// [L1] release, system scope -> acquire of the word by the host. The nodes before the marker have
/// ended when it starts, and the end of a node makes its writes visible to later nodes: those of
/// kernels, including their words in the notification ring, and those of copy engines. They happen
/// before this store, and a release is cumulative, so a host that has read the word sees all of
/// them.
///
/// Launches that share a count run in order, so no other thread adds to it at the same time.
__global__ void count_end(std::uint64_t* count, std::uint64_t* word) {
  const std::uint64_t ended = *count + 1;
  *count = ended;
  system_word(*word).store(ended, ::cuda::memory_order_release);
}

__global__ void publish_end(std::uint64_t*, std::uint64_t* word) {
  system_word(*word).store(1, ::cuda::memory_order_release);
}

/// For a segment inside a program: the work that follows runs on the GPU, where the end of a node
/// makes its writes visible, and the host does not read them yet. No fence is needed.
__global__ void store_end(std::uint64_t*, std::uint64_t* word) {
  system_word(*word).store(1, ::cuda::memory_order_relaxed);
}

} // namespace

CUkernel marker_kernel(marker what) {
  const void* const function = what == marker::counts ? reinterpret_cast<const void*>(&count_end)
                               : what == marker::publishes
                                   ? reinterpret_cast<const void*>(&publish_end)
                                   : reinterpret_cast<const void*>(&store_end);
  cudaKernel_t kernel = nullptr;
  check(cudaGetKernel(&kernel, function), "kernel that ends a segment");
  return reinterpret_cast<CUkernel>(kernel);
}

} // namespace gsched::cuda

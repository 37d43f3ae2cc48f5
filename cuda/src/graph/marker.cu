// SPDX-License-Identifier: Apache-2.0
#include "graph/marker.hpp"

#include <gsched/cuda/error.hpp>

#include <cuda_runtime_api.h>

#include <cuda/atomic>

#include <cstdint>

namespace gsched::cuda {

namespace {

using system_word = ::cuda::atomic_ref<std::uint64_t, ::cuda::thread_scope_system>;

/// [L1] release, system scope -> acquire of the word by the host. The nodes before this one have
/// ended before it starts, and the end of a node makes its writes visible to the nodes after it:
/// those of kernels, their words in the notification ring included, and those of copy engines. So
/// they happen before this store, and release hands on all that happens before it, whoever wrote
/// it: what a host that has seen the word reads then, it finds whole.
///
/// Launches of one count run in turn, so nobody else adds to it.
__global__ void count_end(std::uint64_t* count, std::uint64_t* word) {
  const std::uint64_t ended = *count + 1;
  *count = ended;
  system_word(*word).store(ended, ::cuda::memory_order_release);
}

__global__ void publish_end(std::uint64_t*, std::uint64_t* word) {
  system_word(*word).store(1, ::cuda::memory_order_release);
}

/// Of a segment within a program: what follows runs on the GPU, in whose memory the end of a node
/// shows all that it wrote, and a host is promised nothing yet. So nothing waits for a fence.
__global__ void tell_end(std::uint64_t*, std::uint64_t* word) {
  system_word(*word).store(1, ::cuda::memory_order_relaxed);
}

} // namespace

CUkernel marker_kernel(marker what) {
  const void* const function = what == marker::counts ? reinterpret_cast<const void*>(&count_end)
                               : what == marker::publishes
                                   ? reinterpret_cast<const void*>(&publish_end)
                                   : reinterpret_cast<const void*>(&tell_end);
  cudaKernel_t kernel = nullptr;
  check(cudaGetKernel(&kernel, function), "kernel that ends a segment");
  return reinterpret_cast<CUkernel>(kernel);
}

} // namespace gsched::cuda

// SPDX-License-Identifier: Apache-2.0
#include "marker.hpp"

#include <gsched/cuda/error.hpp>

#include <cuda_runtime_api.h>

#include <cuda/atomic>

#include <cstdint>

namespace gsched::cuda {

namespace {

/// Launches of one count run in turn, so nobody else adds to it.
///
/// [L1] release, system scope -> acquire of the word by the host. The nodes before this one have
/// ended before it starts, and the end of a node makes its writes visible to the nodes after it:
/// those of kernels, their words in the notification ring included, and those of copy engines. So
/// they happen before this store, and release hands on all that happens before it, whoever wrote
/// it: what a host that has seen the count reads then, it finds whole. The thread has no other
/// write under way than its own of the count, so release has next to nothing to wait for.
__global__ void end_marker(std::uint64_t* count, std::uint64_t* word) {
  const std::uint64_t ended = *count + 1;
  *count = ended;
  ::cuda::atomic_ref<std::uint64_t, ::cuda::thread_scope_system>(*word).store(
      ended, ::cuda::memory_order_release);
}

} // namespace

CUkernel marker_kernel() {
  cudaKernel_t kernel = nullptr;
  check(cudaGetKernel(&kernel, reinterpret_cast<const void*>(&end_marker)),
        "kernel that ends a segment");
  return reinterpret_cast<CUkernel>(kernel);
}

} // namespace gsched::cuda

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "block_dispatch/kernels.hpp"
#include "block_dispatch/mix.hpp"

#include <gsched/cuda/error.hpp>

#include <cuda_runtime_api.h>

#include <utility>

namespace block_dispatch {

/// A job's chain of kernels. The caller destroys the graph.
[[nodiscard]] inline std::pair<cudaGraph_t, cudaGraphNode_t>
make_chain(const tenant& of, long long cycles_per_us, bool instrumented) {
  using gsched::cuda::check;
  cudaGraph_t graph = nullptr;
  check(cudaGraphCreate(&graph, 0), "graph");
  cudaGraphNode_t last = nullptr;
  for (unsigned i = 0; i < of.kernels; ++i) {
    hold_arguments a;
    a.cycles = static_cast<long long>(of.block_us * static_cast<double>(cycles_per_us));
    a.stride = of.stride;
    a.factor = of.factor;
    void* arguments[] = {&a.to, &a.cycles, &a.stride, &a.factor};
    cudaKernelNodeParams how{};
    how.func = const_cast<void*>(hold_kernel(instrumented));
    how.gridDim = dim3(of.blocks);
    how.blockDim = dim3(of.threads);
    how.sharedMemBytes = of.shared_bytes;
    how.kernelParams = arguments;
    cudaGraphNode_t node = nullptr;
    check(cudaGraphAddKernelNode(&node, graph, &last, i == 0 ? 0 : 1, &how), "graph kernel");
    last = node;
  }
  return {graph, last};
}

} // namespace block_dispatch

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <memory>
#include <type_traits>

namespace gsched::cuda {

template <class Handle, cudaError_t (*Destroy)(Handle)>
struct handle_destroyer {
  using pointer = Handle;
  void operator()(Handle h) const noexcept { static_cast<void>(Destroy(h)); }
};
template <class Handle, cudaError_t (*Destroy)(Handle)>
using owned_handle =
    std::unique_ptr<std::remove_pointer_t<Handle>, handle_destroyer<Handle, Destroy>>;

using owned_graph = owned_handle<cudaGraph_t, cudaGraphDestroy>;
using owned_exec = owned_handle<cudaGraphExec_t, cudaGraphExecDestroy>;
using owned_event = owned_handle<cudaEvent_t, cudaEventDestroy>;
using owned_stream = owned_handle<cudaStream_t, cudaStreamDestroy>;

[[nodiscard]] owned_stream make_stream();
[[nodiscard]] owned_exec instantiate(CUgraph graph);

/// Median of the times, in nanoseconds, that a graph takes on a stream between others of itself: no
/// time of the host's is in it.
/// Errors   device_failed with CUDA's words.
[[nodiscard]] double median_replay_ns(cudaGraphExec_t graph, cudaStream_t stream, int runs);

} // namespace gsched::cuda

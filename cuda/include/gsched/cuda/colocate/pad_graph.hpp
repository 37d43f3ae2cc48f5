// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <span>
#include <system_error>
#include <type_traits>

namespace gsched::cuda {

/// A launch of a kernel with one parameter: a struct, which is copied when the call is used.
struct pad_call {
  const void* function = nullptr;
  std::uint32_t blocks = 0;
  std::uint32_t threads = 0;
  std::uint32_t shared_bytes = 0; ///< dynamic
  const void* parameters = nullptr;
};

/// Raises the limit of dynamic shared memory of a kernel.
/// Errors   device_failed with CUDA's message.
void allow_shared_memory(const void* function, std::uint32_t bytes);

/// Adds a kernel node for the call to a graph, which depends on the nodes in `after`.
/// Errors   device_failed with CUDA's message.
[[nodiscard]] cudaGraphNode_t
add_pad_node(cudaGraph_t graph, std::span<const cudaGraphNode_t> after, const pad_call& call);

/// Replaces the call of a node of an instantiated graph, from its next launch on.
[[nodiscard]] std::error_code set_pad_node(cudaGraphExec_t graph, cudaGraphNode_t node,
                                           const pad_call& call) noexcept;

/// Measures the duration of a call on the current GPU, in a chain of equal calls, with the usual
/// gap between two kernels.
/// Cost     some milliseconds, or some hundred runs of the call.
[[nodiscard]] duration measure_pad_call(const pad_call& call);

/// A graph of one node that launches padded kernels. Direct launches on several streams would slow
/// all graphs of the process (docs/research/cliff.md).
///
/// Order    a launch waits for the previous one, on any stream. Use one object for each stream.
/// Cost     launch: two calls of the driver; it neither allocates nor throws.
/// Threads  one owner.
class pad_graph {
public:
  pad_graph() noexcept;
  ~pad_graph();
  pad_graph(pad_graph&&) noexcept;
  pad_graph& operator=(pad_graph&&) noexcept;

  /// Builds the graph. Any valid call will do: launch replaces it.
  /// Errors   device_failed with CUDA's message.
  void make(const pad_call& any);
  /// Launches into a stream, or into the capture of a stream that is being captured.
  [[nodiscard]] std::error_code launch(cudaStream_t stream, const pad_call& call) noexcept;

private:
  struct state;
  std::unique_ptr<state> state_;
};

} // namespace gsched::cuda

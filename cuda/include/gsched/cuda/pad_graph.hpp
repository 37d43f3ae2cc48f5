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

/// A launch of a kernel with one parameter, a struct that is copied when the call is used.
struct pad_call {
  const void* function = nullptr;
  std::uint32_t blocks = 0;
  std::uint32_t threads = 0;
  std::uint32_t shared_bytes = 0; ///< dynamic
  const void* parameters = nullptr;
};

/// Lets a kernel's blocks have that much dynamic shared memory.
/// Errors   device_failed with CUDA's words.
void allow_shared_memory(const void* function, std::uint32_t bytes);

/// Adds it to a graph, behind these nodes of it.
/// Errors   device_failed with CUDA's words.
[[nodiscard]] cudaGraphNode_t
add_pad_node(cudaGraph_t graph, std::span<const cudaGraphNode_t> after, const pad_call& call);

/// Sets a node of an instantiated graph to another call, from its next launch on.
[[nodiscard]] std::error_code set_pad_node(cudaGraphExec_t graph, cudaGraphNode_t node,
                                           const pad_call& call) noexcept;

/// What a call takes on the current GPU between others of itself in a chain, with the usual gap.
/// Cost     some milliseconds, or some hundred times the call's time. It runs that often.
[[nodiscard]] duration measure_pad_call(const pad_call& call);

/// A graph of one node, through which padded kernels are launched: direct launches on several
/// streams would slow all graphs of the process.
///
/// Order    a launch waits for the one before, on whatever stream it was: one object a stream.
/// Cost     launch: two calls of the driver; it neither allocates nor throws.
/// Threads  one owner.
class pad_graph {
public:
  pad_graph() noexcept;
  ~pad_graph();
  pad_graph(pad_graph&&) noexcept;
  pad_graph& operator=(pad_graph&&) noexcept;

  /// Builds the graph, for which any call will do.
  /// Errors   device_failed with CUDA's words.
  void make(const pad_call& any);
  /// Into a stream; into what is captured of it, where it is being captured.
  [[nodiscard]] std::error_code launch(cudaStream_t stream, const pad_call& call) noexcept;

private:
  struct state;
  std::unique_ptr<state> state_;
};

} // namespace gsched::cuda

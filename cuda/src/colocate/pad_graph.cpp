// SPDX-License-Identifier: Apache-2.0
#include <gsched/cuda/colocate/pad_graph.hpp>

#include "graph/measure/replay.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/error.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

namespace gsched::cuda {

namespace {

constexpr const char* what = "padded kernel";

/// The parameters of a call in CUDA's form. Must outlive their use.
class node_parameters {
public:
  explicit node_parameters(const pad_call& c) noexcept
      : pointers_{const_cast<void*>(c.parameters)} {
    all_.func = const_cast<void*>(c.function);
    all_.gridDim = dim3(c.blocks);
    all_.blockDim = dim3(c.threads);
    all_.sharedMemBytes = c.shared_bytes;
    all_.kernelParams = pointers_.data();
  }
  node_parameters(const node_parameters&) = delete;
  node_parameters& operator=(const node_parameters&) = delete;

  [[nodiscard]] const cudaKernelNodeParams* get() const noexcept { return &all_; }

private:
  std::array<void*, 1> pointers_;
  cudaKernelNodeParams all_{};
};

graph_owner chain_of(const pad_call& call, std::size_t nodes) {
  cudaGraph_t made = nullptr;
  check(cudaGraphCreate(&made, 0), what);
  graph_owner graph(made);
  std::vector<cudaGraphNode_t> before;
  for (std::size_t i = 0; i < nodes; ++i) before = {add_pad_node(made, before, call)};
  return graph;
}

double replay_ns(const pad_call& call, std::size_t nodes, cudaStream_t stream) {
  return median_replay_ns(instantiate(chain_of(call, nodes).get()).get(), stream, 5);
}

} // namespace

void allow_shared_memory(const void* function, std::uint32_t bytes) {
  check(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(bytes)),
        what);
}

cudaGraphNode_t add_pad_node(cudaGraph_t graph, std::span<const cudaGraphNode_t> after,
                             const pad_call& call) {
  cudaGraphNode_t node = nullptr;
  const node_parameters p(call);
  check(cudaGraphAddKernelNode(&node, graph, after.data(), after.size(), p.get()), what);
  return node;
}

std::error_code set_pad_node(cudaGraphExec_t graph, cudaGraphNode_t node,
                             const pad_call& call) noexcept {
  const node_parameters p(call);
  return code_of(cudaGraphExecKernelNodeSetParams(graph, node, p.get()));
}

duration measure_pad_call(const pad_call& call) {
  const stream_owner stream = make_stream("stream for measurements");
  // Chains of short kernels are long, so that a graph takes longer than its launch takes the host.
  constexpr std::size_t few = 4;
  const double about = std::max(replay_ns(call, few, stream.get()) / few, 500.0);
  const auto some = static_cast<std::size_t>(std::clamp(300e3 / about, 4.0, 100.0));
  const double shorter = replay_ns(call, some, stream.get());
  const double longer = replay_ns(call, 2 * some, stream.get());
  const double each = std::max(1.0, (longer - shorter) / static_cast<double>(some));
  return duration{static_cast<duration::rep>(each)};
}

struct pad_graph::state {
  graph_owner graph;
  exec_owner exec;
  cudaGraphNode_t node = nullptr;
};

pad_graph::pad_graph() noexcept = default;
pad_graph::~pad_graph() = default;
pad_graph::pad_graph(pad_graph&&) noexcept = default;
pad_graph& pad_graph::operator=(pad_graph&&) noexcept = default;

void pad_graph::make(const pad_call& any) {
  auto s = std::make_unique<state>();
  cudaGraph_t made = nullptr;
  check(cudaGraphCreate(&made, 0), what);
  s->graph.reset(made);
  s->node = add_pad_node(made, {}, any);
  s->exec = instantiate(made);
  state_ = std::move(s);
}

std::error_code pad_graph::launch(cudaStream_t stream, const pad_call& call) noexcept {
  cudaStreamCaptureStatus captured = cudaStreamCaptureStatusNone;
  if (const cudaError_t e = cudaStreamIsCapturing(stream, &captured); e != cudaSuccess)
    return code_of(e);
  if (captured == cudaStreamCaptureStatusActive) {
    void* parameters = const_cast<void*>(call.parameters);
    return code_of(cudaLaunchKernel(call.function, dim3(call.blocks), dim3(call.threads),
                                    &parameters, call.shared_bytes, stream));
  }
  if (!state_) return errc::bad_handle;
  if (const std::error_code e = set_pad_node(state_->exec.get(), state_->node, call)) return e;
  return code_of(cudaGraphLaunch(state_->exec.get(), stream));
}

} // namespace gsched::cuda

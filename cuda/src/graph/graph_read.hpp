// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/graph_order.hpp"

#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/gpu.hpp>

#include <memory>
#include <string>
#include <type_traits>

namespace gsched::cuda {

struct graph_destroyer {
  void operator()(CUgraph g) const noexcept { driver().cuGraphDestroy(g); }
};
using graph_owner = std::unique_ptr<std::remove_pointer_t<CUgraph>, graph_destroyer>;

/// Errors   device_failed, WHERE and CUDA's words.
[[nodiscard]] graph_owner clone_of(CUgraph graph, const std::string& where);
[[nodiscard]] graph_owner empty_graph();

/// As current_gpu, and the GPU's primary context is current where no context was.
class bound_gpu {
public:
  explicit bound_gpu(int ordinal) : guard_(ordinal) {
    CUcontext now = nullptr;
    check(driver().cuCtxGetCurrent(&now), "CUDA context");
    if (now == nullptr) check(cudaSetDevice(ordinal), "CUDA context");
  }

private:
  current_gpu guard_;
};

/// Refuses nodes that a program cannot keep, in the graph and its child graphs.
/// Errors   bad_graph, one line that names the node. `place` names the graph: "graph resnet18: node
///          ", to which the node's number is added, with those of the child graph nodes around it
///          before it: "3.0.12".
void expect_supported_nodes(CUgraph graph, const std::string& place);

/// Reads a graph's nodes and edges, and those of its child graphs.
[[nodiscard]] graph_level read_graph(CUgraph graph);

} // namespace gsched::cuda

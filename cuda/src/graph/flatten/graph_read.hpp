// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/flatten/graph_order.hpp"
#include "owners.hpp"

#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/gpu.hpp>

#include <string>

namespace gsched::cuda {

/// Errors   device_failed: WHERE, CUDA's message.
[[nodiscard]] graph_owner clone_of(CUgraph graph, const std::string& where);
[[nodiscard]] graph_owner empty_graph();

/// As current_gpu; also makes the GPU's primary context current if no context was.
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

/// Refuses unsupported nodes in the graph and its child graphs.
/// Errors   bad_graph, one line that names the node. `place` is the start of the line, "graph
///          resnet18: node "; the node's path follows it: "3.0.12" is node 12 of child graph node 0
///          of child graph node 3.
void expect_supported_nodes(CUgraph graph, const std::string& place);

/// Reads a graph's nodes and edges, and those of its child graphs.
[[nodiscard]] graph_level read_graph(CUgraph graph);

} // namespace gsched::cuda

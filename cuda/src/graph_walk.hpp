// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph_order.hpp"

#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/gpu.hpp>

#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace gsched::cuda {

struct graph_destroyer {
  void operator()(CUgraph g) const noexcept { driver().cuGraphDestroy(g); }
};
using graph_owner = std::unique_ptr<std::remove_pointer_t<CUgraph>, graph_destroyer>;

/// Errors   device_failed, WHERE and CUDA's words.
[[nodiscard]] graph_owner clone_of(CUgraph graph, const std::string& where);

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

/// Reads a graph's nodes and edges, and those of its child graphs.
/// Errors   bad_graph, one line that names the node, for one that a program cannot keep. `place`
///          names the graph: "graph resnet18: node ", to which the node's number is added, with
///          those of the child graph nodes around it before it: "3.0.12".
[[nodiscard]] graph_level read_graph(CUgraph graph, const std::string& place);

/// Nodes of a clone of the level's graph, in the order of the level's. The clone may be a child
/// graph within the clone of what the level's graph is in.
[[nodiscard]] std::vector<CUgraphNode> find_in_clone(const graph_level& level, CUgraph clone);

/// The graph of a child graph node.
[[nodiscard]] CUgraph child_of(CUgraphNode node);

/// Makes the level that of a clone.
void rebind(graph_level& level, CUgraph clone);

} // namespace gsched::cuda

// SPDX-License-Identifier: Apache-2.0
#include "graph/end/graph_end.hpp"

#include <gsched/cuda/error.hpp>

#include <cstddef>
#include <unordered_set>
#include <vector>

namespace gsched::cuda {

namespace {

bool is_full(const CUgraphEdgeData& e) noexcept {
  return e.type == CU_GRAPH_DEPENDENCY_TYPE_DEFAULT && e.from_port == 0;
}

/// Copies the priority of a node, because a node of another priority would use another hardware
/// queue. False if `from` is not a kernel.
bool copy_priority(const driver_functions& cu, CUgraphNode from, CUgraphNode to, const char* what) {
  CUgraphNodeType type{};
  CUkernelNodeAttrValue v{};
  check(cu.cuGraphNodeGetType(from, &type), what);
  if (type != CU_GRAPH_NODE_TYPE_KERNEL ||
      cu.cuGraphKernelNodeGetAttribute(from, CU_KERNEL_NODE_ATTRIBUTE_PRIORITY, &v) != CUDA_SUCCESS)
    return false;
  if (v.priority != 0)
    check(cu.cuGraphKernelNodeSetAttribute(to, CU_KERNEL_NODE_ATTRIBUTE_PRIORITY, &v), what);
  return true;
}

} // namespace

CUgraphNode add_at_end(const driver_functions& cu, CUgraph graph,
                       const CUDA_KERNEL_NODE_PARAMS& kernel) {
  constexpr const char* what = "end of a segment's graph";
  std::size_t n = 0;
  check(cu.cuGraphGetNodes(graph, nullptr, &n), what);
  std::vector<CUgraphNode> last(n);
  if (n > 0) check(cu.cuGraphGetNodes(graph, last.data(), &n), what);
  check(cu.cuGraphGetEdges(graph, nullptr, nullptr, nullptr, &n), what);
  std::vector<CUgraphNode> from(n), into(n);
  std::vector<CUgraphEdgeData> data(n);
  if (n > 0) check(cu.cuGraphGetEdges(graph, from.data(), into.data(), data.data(), &n), what);
  std::unordered_set<CUgraphNode> ends_before_another;
  for (std::size_t i = 0; i < n; ++i)
    if (is_full(data[i])) ends_before_another.insert(from[i]);
  std::erase_if(last, [&](CUgraphNode node) { return ends_before_another.contains(node); });

  CUgraphNode end = nullptr;
  check(cu.cuGraphAddKernelNode(&end, graph, last.data(), last.size(), &kernel), what);
  for (const CUgraphNode node : last)
    if (copy_priority(cu, node, end, what)) break;
  return end;
}

} // namespace gsched::cuda

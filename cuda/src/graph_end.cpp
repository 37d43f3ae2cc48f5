// SPDX-License-Identifier: Apache-2.0
#include "graph_end.hpp"

#include "graph_priority.hpp"

#include <gsched/cuda/error.hpp>

#include <cstddef>
#include <unordered_set>
#include <vector>

namespace gsched::cuda {

CUgraphNode add_at_end(const driver_functions& cu, CUgraph graph,
                       const CUDA_KERNEL_NODE_PARAMS& kernel) {
  constexpr const char* what = "end of a segment's graph";
  std::size_t n = 0;
  check(cu.cuGraphGetNodes(graph, nullptr, &n), what);
  std::vector<CUgraphNode> leaves(n);
  if (n > 0) check(cu.cuGraphGetNodes(graph, leaves.data(), &n), what);
  check(cu.cuGraphGetEdges(graph, nullptr, nullptr, nullptr, &n), what);
  std::vector<CUgraphNode> from(n), into(n);
  std::vector<CUgraphEdgeData> data(n);
  if (n > 0) check(cu.cuGraphGetEdges(graph, from.data(), into.data(), data.data(), &n), what);
  const std::unordered_set<CUgraphNode> followed(from.begin(), from.end());
  std::erase_if(leaves, [&](CUgraphNode node) { return followed.contains(node); });

  CUgraphNode end = nullptr;
  check(cu.cuGraphAddKernelNode(&end, graph, leaves.data(), leaves.size(), &kernel), what);
  for (const CUgraphNode leaf : leaves)
    if (copy_priority(leaf, end, what)) break;
  return end;
}

} // namespace gsched::cuda

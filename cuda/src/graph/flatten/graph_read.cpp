// SPDX-License-Identifier: Apache-2.0
#include "graph/flatten/graph_read.hpp"

#include <cstddef>
#include <cstdint>
#include <unordered_map>

namespace gsched::cuda {

namespace {

/// The name of an unsupported node type in an error; null for supported types.
const char* refused(CUgraphNodeType type) noexcept {
  switch (type) {
  case CU_GRAPH_NODE_TYPE_KERNEL:
  case CU_GRAPH_NODE_TYPE_MEMCPY:
  case CU_GRAPH_NODE_TYPE_MEMSET:
  case CU_GRAPH_NODE_TYPE_HOST:
  case CU_GRAPH_NODE_TYPE_GRAPH:
  case CU_GRAPH_NODE_TYPE_EMPTY:
  case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
  case CU_GRAPH_NODE_TYPE_EVENT_RECORD: return nullptr;
  case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL: return "an external semaphore signal";
  case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT: return "an external semaphore wait";
  case CU_GRAPH_NODE_TYPE_MEM_ALLOC: return "a memory allocation";
  case CU_GRAPH_NODE_TYPE_MEM_FREE: return "a memory release";
  case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: return "a batch of memory operations";
  case CU_GRAPH_NODE_TYPE_CONDITIONAL: return "a conditional";
  default: return "of an unknown type";
  }
}

[[noreturn]] void refuse(const std::string& where, const std::string& what) {
  throw error(errc::bad_graph,
              where + " is " + what +
                  ", expected kernel, memcpy, memset, host, event, empty or child graph");
}

/// A device-updatable node cannot be copied into the graph of a range.
void refuse_device_updatable(CUgraphNode node, const std::string& where) {
  CUkernelNodeAttrValue value{};
  const CUresult got = driver().cuGraphKernelNodeGetAttribute(
      node, CU_KERNEL_NODE_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE, &value);
  if (got == CUDA_SUCCESS && value.deviceUpdatableKernelNode.deviceUpdatable != 0)
    refuse(where, "a kernel that the device may update");
}

std::vector<CUgraphNode> nodes_of(CUgraph graph) {
  std::size_t n = 0;
  check(driver().cuGraphGetNodes(graph, nullptr, &n), "graph nodes");
  std::vector<CUgraphNode> nodes(n);
  if (n > 0) check(driver().cuGraphGetNodes(graph, nodes.data(), &n), "graph nodes");
  return nodes;
}

std::vector<graph_edge> edges_of(CUgraph graph, const std::vector<level_node>& nodes) {
  std::size_t n = 0;
  check(driver().cuGraphGetEdges(graph, nullptr, nullptr, nullptr, &n), "graph edges");
  std::vector<CUgraphNode> from(n), to(n);
  std::vector<CUgraphEdgeData> data(n);
  if (n > 0)
    check(driver().cuGraphGetEdges(graph, from.data(), to.data(), data.data(), &n), "graph edges");
  std::unordered_map<CUgraphNode, std::uint32_t> number;
  for (std::uint32_t i = 0; i < nodes.size(); ++i) number[nodes[i].handle] = i;
  std::vector<graph_edge> edges;
  edges.reserve(n);
  for (std::size_t i = 0; i < n; ++i)
    edges.push_back({number.at(from[i]), number.at(to[i]), data[i]});
  return edges;
}

CUgraph child_of(CUgraphNode node) {
  CUgraph child = nullptr;
  check(driver().cuGraphChildGraphNodeGetGraph(node, &child), "child graph");
  return child;
}

} // namespace

graph_owner clone_of(CUgraph graph, const std::string& where) {
  CUgraph clone = nullptr;
  check(driver().cuGraphClone(&clone, graph), (where + "clone").c_str());
  return graph_owner(clone);
}

graph_owner empty_graph() {
  CUgraph g = nullptr;
  check(driver().cuGraphCreate(&g, 0), "graph");
  return graph_owner(g);
}

void expect_supported_nodes(CUgraph graph, const std::string& place) {
  std::size_t number = 0;
  for (const CUgraphNode node : nodes_of(graph)) {
    const std::string where = place + std::to_string(number++);
    CUgraphNodeType type{};
    check(driver().cuGraphNodeGetType(node, &type), where.c_str());
    if (const char* what = refused(type)) refuse(where, what);
    if (type == CU_GRAPH_NODE_TYPE_KERNEL) refuse_device_updatable(node, where);
    if (type == CU_GRAPH_NODE_TYPE_GRAPH) expect_supported_nodes(child_of(node), where + ".");
  }
}

graph_level read_graph(CUgraph graph) {
  graph_level level;
  for (const CUgraphNode handle : nodes_of(graph)) {
    level_node& node = level.nodes.emplace_back();
    node.handle = handle;
    check(driver().cuGraphNodeGetType(handle, &node.type), "graph node");
    if (node.type == CU_GRAPH_NODE_TYPE_GRAPH)
      node.child = std::make_unique<graph_level>(read_graph(child_of(handle)));
  }
  level.edges = edges_of(graph, level.nodes);
  return level;
}

} // namespace gsched::cuda

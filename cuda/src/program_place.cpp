// SPDX-License-Identifier: Apache-2.0
#include "program_place.hpp"

#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>

#include <cstddef>
#include <cstring>
#include <unordered_map>
#include <utility>
#include <vector>

namespace gsched::cuda {

namespace {

using node_map = std::unordered_map<CUgraphNode, CUgraphNode>;

class current_context {
public:
  current_context(CUcontext c, const std::string& what) {
    check(driver().cuCtxPushCurrent(c), what.c_str());
  }
  ~current_context() {
    CUcontext was = nullptr;
    driver().cuCtxPopCurrent(&was);
  }
  current_context(const current_context&) = delete;
  current_context& operator=(const current_context&) = delete;
};

std::string name_of(CUfunction f) {
  const char* name = nullptr;
  return f != nullptr && driver().cuFuncGetName(&name, f) == CUDA_SUCCESS && name != nullptr
             ? name
             : "of unknown name";
}

/// What was allowed to a kernel in its own context: more shared memory, larger clusters. Where that
/// fails, so does making the node, which says what is wrong.
void allow_as_before(CUfunction before, const CUDA_KERNEL_NODE_PARAMS& k, const std::string& what) {
  const driver_functions& d = driver();
  const current_context there(k.ctx, what);
  CUfunction now = nullptr;
  if (d.cuKernelGetFunction(&now, k.kern) != CUDA_SUCCESS) return;
  for (const CUfunction_attribute a : {CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                       CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
                                       CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED}) {
    int wanted = 0;
    int has = 0;
    if (d.cuFuncGetAttribute(&wanted, a, before) != CUDA_SUCCESS ||
        d.cuFuncGetAttribute(&has, a, now) != CUDA_SUCCESS || wanted == has)
      continue;
    static_cast<void>(d.cuFuncSetAttribute(now, a, wanted));
  }
}

/// Those that differ from what a new node has.
void copy_attributes(CUgraphNode from, CUgraphNode to, const std::string& what) {
  const driver_functions& d = driver();
  for (const CUlaunchAttributeID id :
       {CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION,
        CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE, CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
        CU_LAUNCH_ATTRIBUTE_PRIORITY, CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW,
        CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN,
        CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
        CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION}) {
    CUkernelNodeAttrValue wanted;
    CUkernelNodeAttrValue has;
    std::memset(&wanted, 0, sizeof wanted);
    std::memset(&has, 0, sizeof has);
    if (d.cuGraphKernelNodeGetAttribute(from, id, &wanted) != CUDA_SUCCESS) continue;
    static_cast<void>(d.cuGraphKernelNodeGetAttribute(to, id, &has)); // else zeros, as good
    if (std::memcmp(&wanted, &has, sizeof has) == 0) continue;
    const CUresult r = d.cuGraphKernelNodeSetAttribute(to, id, &wanted);
    // Of programmatic launches all that counts is in the edges.
    if (id != CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) check(r, what.c_str());
  }
}

CUgraphNode remake(CUgraph graph, CUgraphNode old, CUcontext where, const std::string& what) {
  const driver_functions& d = driver();
  CUDA_KERNEL_NODE_PARAMS k{}; // its pointers lead into the old node
  check(d.cuGraphKernelNodeGetParams(old, &k), what.c_str());
  if (k.kern == nullptr)
    throw error(errc::bad_graph, what + ": kernel " + name_of(k.func) +
                                     " belongs to one context, expected one of a library "
                                     "(CUkernel), which can run on SMs of its lane's own");
  const CUfunction before = k.func;
  k.func = nullptr;
  k.ctx = where;
  if (before != nullptr) allow_as_before(before, k, what);
  if (k.kernelParams != nullptr) k.extra = nullptr; // one of the two
  CUgraphNode made = nullptr;
  check(d.cuGraphAddKernelNode(&made, graph, nullptr, 0, &k), what.c_str());
  copy_attributes(old, made, what);
  return made;
}

/// Adds the edges that the new nodes need, each with the data of its old one.
void copy_edges(CUgraph graph, const node_map& instead, const std::string& what) {
  const driver_functions& d = driver();
  std::size_t n = 0;
  check(d.cuGraphGetEdges(graph, nullptr, nullptr, nullptr, &n), what.c_str());
  std::vector<CUgraphNode> from(n), to(n);
  std::vector<CUgraphEdgeData> data(n);
  if (n > 0) check(d.cuGraphGetEdges(graph, from.data(), to.data(), data.data(), &n), what.c_str());
  const auto now = [&](CUgraphNode node) {
    const auto at = instead.find(node);
    return at == instead.end() ? node : at->second;
  };
  std::size_t kept = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const CUgraphNode a = now(from[i]);
    const CUgraphNode b = now(to[i]);
    if (a == from[i] && b == to[i]) continue;
    from[kept] = a;
    to[kept] = b;
    data[kept++] = data[i];
  }
  if (kept > 0)
    check(d.cuGraphAddDependencies(graph, from.data(), to.data(), data.data(), kept), what.c_str());
}

} // namespace

void place_kernels(CUgraph graph, CUcontext where, const std::string& what) {
  const driver_functions& d = driver();
  std::size_t n = 0;
  check(d.cuGraphGetNodes(graph, nullptr, &n), what.c_str());
  std::vector<CUgraphNode> nodes(n);
  if (n > 0) check(d.cuGraphGetNodes(graph, nodes.data(), &n), what.c_str());
  node_map instead;
  for (const CUgraphNode node : nodes) {
    CUgraphNodeType type{};
    check(d.cuGraphNodeGetType(node, &type), what.c_str());
    if (type == CU_GRAPH_NODE_TYPE_KERNEL) instead[node] = remake(graph, node, where, what);
  }
  copy_edges(graph, instead, what);
  for (const auto& [old, made] : instead) check(d.cuGraphDestroyNode(old), what.c_str());
}

} // namespace gsched::cuda

// SPDX-License-Identifier: Apache-2.0
#include "graph/build/graph_build.hpp"

#include "graph/flatten/graph_read.hpp"

#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

namespace gsched::cuda {

namespace {

/// The attributes of a kernel node itself; edges hold those of programmatic launches.
constexpr std::array attribute_ids{CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                                   CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION,
                                   CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE,
                                   CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
                                   CU_LAUNCH_ATTRIBUTE_PRIORITY,
                                   CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW,
                                   CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP,
                                   CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN,
                                   CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
                                   CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING,
                                   CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION};
using values = std::array<std::optional<CUlaunchAttributeValue>, attribute_ids.size()>;

values values_of(CUgraphNode node) {
  values all;
  for (std::size_t i = 0; i < attribute_ids.size(); ++i) {
    CUlaunchAttributeValue v;
    std::memset(&v, 0, sizeof v);
    if (driver().cuGraphKernelNodeGetAttribute(node, attribute_ids[i], &v) == CUDA_SUCCESS)
      all[i] = v;
  }
  return all;
}

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

/// Copies the limits of a kernel (shared memory, cluster size) to its own context. Failures are
/// ignored: adding the node then fails and says why.
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
  allow_as_captured(now, k.sharedMemBytes);
}

} // namespace

/// A scratch graph with one node for each kernel read so far.
struct attribute_reader::state {
  graph_owner scratch = empty_graph();
  std::map<std::pair<CUfunction, CUkernel>, values> defaults;
};

attribute_reader::attribute_reader() : state_(std::make_unique<state>()) {}
attribute_reader::~attribute_reader() = default;

node_attributes attribute_reader::read(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS& params,
                                       const std::string& what) {
  const auto [at, is_new] = state_->defaults.try_emplace({params.func, params.kern});
  if (is_new)
    at->second = values_of(add_kernel_node(state_->scratch.get(), params, {}, nullptr, what));
  const values has = values_of(node);
  node_attributes differ;
  for (std::size_t i = 0; i < attribute_ids.size(); ++i) {
    if (!has[i]) continue;
    CUlaunchAttributeValue plain;
    std::memset(&plain, 0, sizeof plain);
    if (at->second[i]) plain = *at->second[i];
    if (std::memcmp(&*has[i], &plain, sizeof plain) == 0) continue;
    CUlaunchAttribute& a = differ.emplace_back();
    a.id = attribute_ids[i];
    a.value = *has[i];
  }
  return differ;
}

void allow_as_captured(CUfunction function, std::uint32_t dynamic_shared_bytes) noexcept {
  const driver_functions& d = driver();
  constexpr auto limit = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
  int allowed = 0;
  if (d.cuFuncGetAttribute(&allowed, limit, function) != CUDA_SUCCESS) return;
  if (static_cast<std::int64_t>(dynamic_shared_bytes) > allowed)
    static_cast<void>(
        d.cuFuncSetAttribute(function, limit, static_cast<int>(dynamic_shared_bytes)));
}

CUgraphNode add_kernel_node(CUgraph graph, CUDA_KERNEL_NODE_PARAMS k,
                            const node_attributes& attributes, CUcontext place,
                            const std::string& what) {
  const driver_functions& d = driver();
  if (place != nullptr) {
    if (k.kern == nullptr)
      throw error(errc::bad_graph, what + ": kernel " + name_of(k.func) +
                                       " belongs to one context, expected one of a library "
                                       "(CUkernel), which can run on SMs of its lane's own");
    const CUfunction before = k.func;
    k.func = nullptr; // else the driver ignores kern and ctx
    k.ctx = place;
    if (before != nullptr) allow_as_before(before, k, what);
  }
  if (k.kernelParams != nullptr) k.extra = nullptr; // the driver accepts only one of the two
  CUgraphNode made = nullptr;
  check(d.cuGraphAddKernelNode(&made, graph, nullptr, 0, &k), what.c_str());
  for (const CUlaunchAttribute& a : attributes) {
    const CUresult r = d.cuGraphKernelNodeSetAttribute(made, a.id, &a.value);
    // The edges hold everything that matters of a programmatic launch.
    if (a.id != CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) check(r, what.c_str());
  }
  return made;
}

CUgraphNode add_one_thread(CUgraph graph, CUkernel kernel, void** arguments, CUcontext place,
                           const std::string& what) {
  CUDA_KERNEL_NODE_PARAMS k{};
  k.kern = kernel;
  k.gridDimX = k.gridDimY = k.gridDimZ = 1;
  k.blockDimX = k.blockDimY = k.blockDimZ = 1;
  k.kernelParams = arguments;
  return add_kernel_node(graph, k, {}, place, what);
}

CUgraphNode add_other_node(CUgraph graph, const flat_node& node, const std::string& what) {
  const driver_functions& d = driver();
  CUgraphNode made = nullptr;
  CUevent event = nullptr;
  switch (node.type) {
  case CU_GRAPH_NODE_TYPE_HOST: {
    CUDA_HOST_NODE_PARAMS call{};
    check(d.cuGraphHostNodeGetParams(node.handle, &call), what.c_str());
    check(d.cuGraphAddHostNode(&made, graph, nullptr, 0, &call), what.c_str());
    break;
  }
  case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    check(d.cuGraphEventWaitNodeGetEvent(node.handle, &event), what.c_str());
    check(d.cuGraphAddEventWaitNode(&made, graph, nullptr, 0, event), what.c_str());
    break;
  case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    check(d.cuGraphEventRecordNodeGetEvent(node.handle, &event), what.c_str());
    check(d.cuGraphAddEventRecordNode(&made, graph, nullptr, 0, event), what.c_str());
    break;
  default: check(d.cuGraphAddEmptyNode(&made, graph, nullptr, 0), what.c_str());
  }
  return made;
}

void edge_list::add_to(CUgraph graph, const std::string& what) const {
  const auto add = [&](std::size_t first, std::size_t last) {
    check(driver().cuGraphAddDependencies(graph, from_.data() + first, to_.data() + first,
                                          data_.data() + first, last - first),
          what.c_str());
  };
  // Given edges of several kinds, one call would make all of them of the first one's kind.
  std::size_t first = 0;
  for (std::size_t i = 1; i <= from_.size(); ++i)
    if (i == from_.size() || std::memcmp(&data_[i], &data_[first], sizeof data_[i]) != 0) {
      add(first, i);
      first = i;
    }
}

} // namespace gsched::cuda

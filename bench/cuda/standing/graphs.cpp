// SPDX-License-Identifier: Apache-2.0
#include "standing/graphs.hpp"
#include "standing/kernels.hpp"

#include <gsched/core/error.hpp>

#include <algorithm>

namespace standing {

using gsched::cuda::check;
using gsched::cuda::driver;

namespace {

constexpr unsigned spin_threads = 128;
constexpr unsigned kernels_between = 9;

/// gsched::cuda::driver() does not load it, because no program contains such nodes.
auto add_wait_function() {
  using function = decltype(&::cuGraphAddBatchMemOpNode);
  static const function found = [] {
    void* at = nullptr;
    cudaDriverEntryPointQueryResult how = cudaDriverEntryPointSymbolNotFound;
    check(cudaGetDriverEntryPointByVersion("cuGraphAddBatchMemOpNode", &at, CUDART_VERSION,
                                           cudaEnableDefault, &how),
          "cuGraphAddBatchMemOpNode");
    if (how != cudaDriverEntryPointSuccess)
      throw gsched::error(gsched::errc::no_device,
                          "CUDA driver: no cuGraphAddBatchMemOpNode, expected one that has it");
    return reinterpret_cast<function>(at);
  }();
  return found;
}

CUcontext current_context() {
  CUcontext current = nullptr;
  check(driver().cuCtxGetCurrent(&current), "context");
  return current;
}

void set_attribute(CUgraphNode kernel, CUlaunchAttributeID which,
                   const CUlaunchAttributeValue& value) {
  check(driver().cuGraphKernelNodeSetAttribute(kernel, which, &value), "kernel attribute");
}

void set_highest_priority(CUgraphNode kernel) {
  int least = 0;
  CUlaunchAttributeValue value{};
  check(cudaDeviceGetStreamPriorityRange(&least, &value.priority), "priorities");
  set_attribute(kernel, CU_LAUNCH_ATTRIBUTE_PRIORITY, value);
}

void set_cluster(CUgraphNode kernel) {
  CUlaunchAttributeValue value{};
  value.clusterDim = {2, 1, 1};
  set_attribute(kernel, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, value);
}

} // namespace

graph new_graph() {
  CUgraph made = nullptr;
  check(driver().cuGraphCreate(&made, 0), "graph");
  return graph(made);
}

executable instantiate(const graph& g, unsigned flags) {
  CUgraphExec made = nullptr;
  check(driver().cuGraphInstantiateWithFlags(&made, g.get(), flags), "instantiation");
  return executable(made);
}

CUkernel kernel_of(const void* function) {
  cudaKernel_t kernel = nullptr;
  check(cudaGetKernel(&kernel, function), "kernel");
  return reinterpret_cast<CUkernel>(kernel);
}

CUgraphNode add_kernel_of(CUgraph to, const std::vector<CUgraphNode>& behind, CUkernel kernel,
                          unsigned blocks, unsigned threads, std::size_t shared_bytes,
                          void** arguments) {
  CUDA_KERNEL_NODE_PARAMS p{};
  p.kern = kernel;
  p.gridDimX = blocks;
  p.gridDimY = p.gridDimZ = 1;
  p.blockDimX = threads;
  p.blockDimY = p.blockDimZ = 1;
  p.sharedMemBytes = static_cast<unsigned>(shared_bytes);
  p.kernelParams = arguments;
  CUgraphNode node = nullptr;
  check(driver().cuGraphAddKernelNode(&node, to, behind.data(), behind.size(), &p), "kernel node");
  return node;
}

void set_cooperative(CUgraphNode kernel) {
  CUlaunchAttributeValue value{};
  value.cooperative = 1;
  set_attribute(kernel, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, value);
}

class graph_maker::build {
public:
  using nodes = std::vector<CUgraphNode>;

  build(const graph_maker& by, const graph_kind& kind, const kernel_shape& kernel,
        const graph_words& words)
      : memory_(by.memory_), kind_(kind), words_(words), blocks_(kernel.blocks),
        cycles_(static_cast<std::uint64_t>(kernel.us * by.cycles_per_us_)) {}

  [[nodiscard]] made_graph run() {
    std::vector<nodes> last(kind_.branches); // of each branch
    if (kind_.branches > 1) {
      const CUgraphNode root = add_spin({});
      for (nodes& l : last) l = {root};
    }
    nodes gate; // a gate beside the level before
    for (unsigned level = 0; level < kind_.levels; ++level) {
      const bool gated =
          kind_.gates != gate_way::none && level > 0 && (level - 1) % kind_.every == 0;
      const nodes before = all_of(last);
      if (gated && kind_.gates != gate_way::beside) {
        const CUgraphNode held = add_gate(before);
        for (nodes& l : last) l = {held};
      }
      for (nodes& l : last) l = {add_spin(together(l, gate))};
      gate.clear();
      if (gated && kind_.gates == gate_way::beside) gate = {add_gate(before)};
      if (kind_.between == node_kind::none || (level + 1) % kernels_between != 0) continue;
      for (nodes& l : last) l = {add_between(l, gate)};
      gate.clear();
    }
    return {std::move(graph_), gates_};
  }

private:
  [[nodiscard]] static nodes together(nodes a, const nodes& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }
  [[nodiscard]] static nodes all_of(const std::vector<nodes>& branches) {
    nodes all;
    for (const nodes& b : branches) all = together(std::move(all), b);
    std::ranges::sort(all);
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
  }

  CUgraphNode add_spin(const nodes& behind, CUgraph to = nullptr) {
    return add_kernel(to == nullptr ? graph_.get() : to, behind, spin_, blocks_, spin_threads, 0,
                      cycles_);
  }

  CUgraphNode add_gate(const nodes& behind) {
    const unsigned number = gates_++;
    if (kind_.gates == gate_way::beside || kind_.gates == gate_way::in_line)
      return add_kernel(graph_.get(), behind, gate_, 1, 1, 0, words_.line, number);
    if (number >= most_waits)
      throw gsched::error(gsched::errc::too_small, "wait nodes: more than there are words for");
    const bool on_device = kind_.gates == gate_way::wait_on_device;
    CUstreamBatchMemOpParams wait{};
    wait.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    wait.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    wait.waitValue.address =
        (on_device ? words_.device_waits : words_.host_waits) + number * sizeof(std::uint32_t);
    wait.waitValue.value = 0;
    wait.waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
    CUDA_BATCH_MEM_OP_NODE_PARAMS p{};
    p.ctx = current_context();
    p.count = 1;
    p.paramArray = &wait;
    CUgraphNode node = nullptr;
    check(add_wait_function()(&node, graph_.get(), behind.data(), behind.size(), &p), "wait node");
    return node;
  }

  CUgraphNode add_between(const nodes& last, const nodes& gate) {
    const nodes behind = together(last, gate);
    CUgraphNode node = nullptr;
    switch (kind_.between) {
    case node_kind::none: break;
    case node_kind::set_4_bytes: return add_set(behind, 4, 1, 1);
    case node_kind::set_4_kib: return add_set(behind, 1, 4096, 1);
    case node_kind::set_1_mib: return add_set(behind, 1, std::size_t{1} << 20, 1);
    case node_kind::set_rows: return add_set(behind, 1, 100, 16);
    case node_kind::set_by_kernel:
      return add_kernel(graph_.get(), behind, kernel_of(all_kernels().set_words), 8, spin_threads,
                        0, memory_.device, std::uint32_t{1024});
    case node_kind::copy_within: return add_copy(behind, true, true);
    case node_kind::copy_from_pinned: return add_copy(behind, false, true);
    case node_kind::copy_to_pinned: return add_copy(behind, true, false);
    case node_kind::host_function: {
      CUDA_HOST_NODE_PARAMS p{};
      p.fn = [](void*) {};
      check(driver().cuGraphAddHostNode(&node, graph_.get(), behind.data(), behind.size(), &p),
            "host node");
      return node;
    }
    case node_kind::empty:
      check(driver().cuGraphAddEmptyNode(&node, graph_.get(), behind.data(), behind.size()),
            "empty node");
      return node;
    case node_kind::event_record:
      check(driver().cuGraphAddEventRecordNode(&node, graph_.get(), behind.data(), behind.size(),
                                               memory_.event),
            "event record node");
      return node;
    case node_kind::event_wait:
      check(driver().cuGraphAddEventWaitNode(&node, graph_.get(), behind.data(), behind.size(),
                                             memory_.event),
            "event wait node");
      return node;
    case node_kind::priority: set_highest_priority(node = add_spin(behind)); return node;
    case node_kind::child: {
      const graph child = new_graph(); // the node has a clone of it
      add_spin({add_spin({}, child.get())}, child.get());
      check(cudaGraphAddChildGraphNode(&node, graph_.get(), behind.data(), behind.size(),
                                       child.get()),
            "child graph node");
      return node;
    }
    case node_kind::cooperative: set_cooperative(node = add_spin(behind)); return node;
    case node_kind::cluster: set_cluster(node = add_spin(behind)); return node;
    case node_kind::programmatic: {
      node = add_spin(gate);
      CUgraphEdgeData edge{};
      edge.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
      edge.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
      check(driver().cuGraphAddDependencies(graph_.get(), &last.front(), &node, &edge, 1),
            "programmatic edge");
      return node;
    }
    }
    return nullptr;
  }

  CUgraphNode add_set(const nodes& behind, unsigned element, std::size_t width,
                      std::size_t height) {
    CUDA_MEMSET_NODE_PARAMS p{};
    p.dst = memory_.device;
    p.elementSize = element;
    p.width = width;
    p.height = height;
    p.pitch = height == 1 ? width * element : 512;
    CUgraphNode node = nullptr;
    check(driver().cuGraphAddMemsetNode(&node, graph_.get(), behind.data(), behind.size(), &p,
                                        current_context()),
          "set node");
    return node;
  }

  CUgraphNode add_copy(const nodes& behind, bool from_device, bool to_device) {
    constexpr std::size_t bytes = 4096;
    CUDA_MEMCPY3D p{};
    p.srcMemoryType = from_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
    p.srcDevice = memory_.device + node_memory::bytes / 2;
    p.srcHost = memory_.pinned;
    p.dstMemoryType = to_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
    p.dstDevice = memory_.device;
    p.dstHost = memory_.pinned;
    p.srcPitch = p.dstPitch = p.WidthInBytes = bytes;
    p.srcHeight = p.dstHeight = p.Height = p.Depth = 1;
    CUgraphNode node = nullptr;
    check(driver().cuGraphAddMemcpyNode(&node, graph_.get(), behind.data(), behind.size(), &p,
                                        current_context()),
          "copy node");
    return node;
  }

  const node_memory& memory_;
  const graph_kind& kind_;
  const graph_words& words_;
  unsigned blocks_;
  std::uint64_t cycles_;
  CUkernel spin_ = kernel_of(all_kernels().spin);
  CUkernel gate_ = kernel_of(all_kernels().gate);
  graph graph_ = new_graph();
  unsigned gates_ = 0;
};

graph_maker::graph_maker(int gpu, const node_memory& memory) : memory_(memory) {
  int khz = 0;
  check(cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, gpu), "clock rate");
  cycles_per_us_ = khz / 1e3;
}

made_graph graph_maker::make(const graph_kind& kind, const kernel_shape& kernel,
                             const graph_words& words) const {
  return build(*this, kind, kernel, words).run();
}

graph graph_maker::chain(unsigned kernels, const kernel_shape& kernel) const {
  graph_kind kind{"chain"};
  kind.gates = gate_way::none;
  kind.levels = kernels;
  return make(kind, kernel).handle;
}

} // namespace standing

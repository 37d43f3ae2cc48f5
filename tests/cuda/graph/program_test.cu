// SPDX-License-Identifier: Apache-2.0
#include "cuda/graph/program_kernels.cuh"
#include "cuda/graph/program_samples.hpp"
#include "cuda/needs_gpu.hpp"

#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/partition/partitions.hpp>
#include <gsched/cuda/program.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace gsched::testing {
namespace {

constexpr int n = arena::row;
constexpr int threads = 128;
constexpr int blocks = n / threads;

bool has_clusters() {
  int major = 0;
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
  return major >= 9;
}

void launch_with(cudaStream_t s, cudaLaunchAttribute with, void (*kernel)(const word*, word*, int),
                 const word* in, word* out) {
  cudaLaunchConfig_t c{};
  c.gridDim = blocks;
  c.blockDim = threads;
  c.stream = s;
  c.attrs = &with;
  c.numAttrs = 1;
  cuda::check(cudaLaunchKernelEx(&c, kernel, in, out, n), "launch");
}

void launch_early(cudaStream_t s, const word* in, word* out, word salt) {
  cudaLaunchAttribute with{};
  with.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  with.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t c{};
  c.gridDim = blocks;
  c.blockDim = threads;
  c.stream = s;
  c.attrs = &with;
  c.numAttrs = 1;
  cuda::check(cudaLaunchKernelEx(&c, early_step, in, out, n, salt), "launch");
}

/// Streams and events for captures that fork, and a counter of host nodes.
struct tools {
  arena memory;
  cudaStream_t side[2] = {};
  cudaEvent_t event[4] = {};
  cudaEvent_t outside = nullptr;
  int calls = 0;

  tools() {
    int least = 0, most = 0;
    cuda::check(cudaDeviceGetStreamPriorityRange(&least, &most), "priorities");
    for (cudaStream_t& s : side)
      cuda::check(cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, most), "stream");
    for (cudaEvent_t& e : event)
      cuda::check(cudaEventCreateWithFlags(&e, cudaEventDisableTiming), "event");
    cuda::check(cudaEventCreateWithFlags(&outside, cudaEventDisableTiming), "event");
  }
  ~tools() {
    for (cudaStream_t s : side) cudaStreamDestroy(s);
    for (cudaEvent_t e : event) cudaEventDestroy(e);
    cudaEventDestroy(outside);
  }
  void fork(cudaStream_t from, int to, int by) {
    cuda::check(cudaEventRecord(event[by], from), "event");
    cuda::check(cudaStreamWaitEvent(side[to], event[by]), "event");
  }
  void join(int from, cudaStream_t to, int by) {
    cuda::check(cudaEventRecord(event[by], side[from]), "event");
    cuda::check(cudaStreamWaitEvent(to, event[by]), "event");
  }
  static void CUDART_CB count(void* t) { ++static_cast<tools*>(t)->calls; }
};

cudaGraph_t captured(tools& t, const std::function<void(tools&, cudaStream_t)>& f) {
  runner on;
  cuda::check(cudaStreamBeginCapture(on.stream(), cudaStreamCaptureModeThreadLocal), "capture");
  f(t, on.stream());
  cudaGraph_t g = nullptr;
  cuda::check(cudaStreamEndCapture(on.stream(), &g), "capture");
  return g;
}

void chain(tools& t, cudaStream_t s) {
  for (word i = 0; i < 9; ++i)
    step<<<blocks, threads, 0, s>>>(t.memory.at(i % 2), t.memory.at(1 - i % 2), n, i);
  shared_step<<<blocks, threads, threads * sizeof(word), s>>>(t.memory.at(0), t.memory.at(2), n);
}

void fork_join(tools& t, cudaStream_t s) {
  const arena& m = t.memory;
  step<<<blocks, threads, 0, s>>>(m.at(0), m.at(1), n, 1);
  t.fork(s, 0, 0);
  t.fork(s, 1, 1);
  for (word i = 0; i < 4; ++i) {
    step<<<blocks, threads, 0, t.side[0]>>>(m.at(i % 2 ? 3 : 1), m.at(i % 2 ? 1 : 3), n, 10 + i);
    step<<<blocks, threads, 0, t.side[1]>>>(m.at(i % 2 ? 5 : 4), m.at(i % 2 ? 4 : 5), n, 20 + i);
    step<<<blocks, threads, 0, s>>>(m.at(i % 2 ? 6 : 2), m.at(i % 2 ? 2 : 6), n, 30 + i);
  }
  t.join(0, s, 2);
  t.join(1, s, 3);
  join<<<blocks, threads, 0, s>>>(m.at(1), m.at(4), m.at(2), n);
}

void copies(tools& t, cudaStream_t s) {
  const arena& m = t.memory;
  const std::size_t b = arena::row_bytes;
  cuda::check(cudaMemcpyAsync(m.at(0), t.memory.pinned(), b, cudaMemcpyHostToDevice, s), "copy");
  step<<<blocks, threads, 0, s>>>(m.at(0), m.at(1), n, 3);
  cuda::check(cudaMemcpyAsync(m.at(2), m.at(1), b, cudaMemcpyDeviceToDevice, s), "copy");
  cuda::check(
      cudaMemcpy2DAsync(m.at(3) + 4, 256, m.at(2), 128, 100, 30, cudaMemcpyDeviceToDevice, s),
      "copy");
  step<<<blocks, threads, 0, s>>>(m.at(3), m.at(4), n, 4);
  cuda::check(cudaMemsetAsync(m.at(5), 0x5a, 1000, s), "set");
  cuda::check(cudaMemset2DAsync(m.at(6), 512, 0x33, 200, 7, s), "set");
  join<<<blocks, threads, 0, s>>>(m.at(5), m.at(6), m.at(4), n);
  cuda::check(cudaMemcpyAsync(t.memory.pinned(), m.at(4), b, cudaMemcpyDeviceToHost, s), "copy");
}

/// Sets of each element size, with rows, at odd addresses; copies at odd addresses. Each one lies
/// between kernels that depend on it, in two branches.
void odd_work(tools& t, cudaStream_t s) {
  const arena& m = t.memory;
  const cuda::driver_functions& d = cuda::driver();
  const auto at = [&](int row, std::size_t offset) {
    return reinterpret_cast<CUdeviceptr>(m.at(row)) + offset;
  };
  step<<<blocks, threads, 0, s>>>(m.at(0), m.at(1), n, 1);
  t.fork(s, 0, 0);
  cuda::check(d.cuMemsetD8Async(at(1, 3), 0xa5, 777, s), "set");
  step<<<blocks, threads, 0, s>>>(m.at(1), m.at(2), n, 2);
  cuda::check(d.cuMemsetD16Async(at(2, 6), 0xbeef, 513, s), "set");
  cuda::check(d.cuMemsetD2D16Async(at(2, 4098), 130, 0x1234, 33, 9, s), "set");
  step<<<blocks, threads, 0, s>>>(m.at(2), m.at(3), n, 3);
  cuda::check(d.cuMemsetD32Async(at(3, 20), 0xdeadbeef, 1001, s), "set");
  cuda::check(d.cuMemsetD2D32Async(at(3, 8192), 76, 0x01020304, 17, 11, s), "set");
  const cudaStream_t side = t.side[0];
  cuda::check(cudaMemcpyAsync(m.at(4), m.at(0), 4095, cudaMemcpyDeviceToDevice, side), "copy");
  step<<<blocks, threads, 0, side>>>(m.at(4), m.at(5), n, 4);
  const auto* const odd = reinterpret_cast<const char*>(m.at(4)) + 1;
  cuda::check(cudaMemcpyAsync(reinterpret_cast<char*>(m.at(5)) + 7, odd, 5001,
                              cudaMemcpyDeviceToDevice, side),
              "copy");
  cuda::check(cudaMemset2DAsync(reinterpret_cast<char*>(m.at(5)) + 6001, 101, 0x7f, 99, 21, side),
              "set");
  step<<<blocks, threads, 0, side>>>(m.at(5), m.at(6), n, 5);
  t.join(0, s, 2);
  join<<<blocks, threads, 0, s>>>(m.at(3), m.at(6), m.at(7), n);
}

void clustered(tools& t, cudaStream_t s) {
  cudaLaunchAttribute with{};
  with.id = cudaLaunchAttributeClusterDimension;
  with.val.clusterDim = {4, 1, 1};
  for (int i = 0; i < 5; ++i)
    launch_with(s, with, cluster_step, t.memory.at(i % 2), t.memory.at(1 - i % 2));
}

void early(tools& t, cudaStream_t s) {
  step<<<blocks, threads, 0, s>>>(t.memory.at(0), t.memory.at(1), n, 1);
  for (word i = 1; i < 8; ++i) launch_early(s, t.memory.at(i % 2), t.memory.at(1 - i % 2), i);
}

void reporting(tools& t, cudaStream_t s) {
  for (int i = 0; i < 6; ++i)
    if (i % 2 == 0)
      reporting_step<<<blocks, threads, 0, s>>>(t.memory.at(i % 2), {}, t.memory.at(1 - i % 2), n);
    else
      step<<<blocks, threads, 0, s>>>(t.memory.at(i % 2), t.memory.at(1 - i % 2), n, 8);
}

cudaGraphNode_t add_step(cudaGraph_t g, std::vector<cudaGraphNode_t> after, const word* in,
                         word* out, word salt) {
  int count = n;
  void* arguments[] = {&in, &out, &count, &salt};
  cudaKernelNodeParams k{};
  k.func = reinterpret_cast<void*>(step);
  k.gridDim = blocks;
  k.blockDim = threads;
  k.kernelParams = arguments;
  cudaGraphNode_t node = nullptr;
  cuda::check(cudaGraphAddKernelNode(&node, g, after.data(), after.size(), &k), "node");
  return node;
}

cudaGraph_t new_graph() {
  cudaGraph_t g = nullptr;
  cuda::check(cudaGraphCreate(&g, 0), "graph");
  return g;
}

/// Nodes that are no operations before, between and after those that are; events; a host function.
cudaGraph_t with_others(tools& t) {
  const arena& m = t.memory;
  cudaGraph_t g = new_graph();
  cudaGraphNode_t empty, record, wait, call;
  cuda::check(cudaGraphAddEmptyNode(&empty, g, nullptr, 0), "node");
  const cudaGraphNode_t a = add_step(g, {empty}, m.at(0), m.at(1), 1);
  const cudaGraphNode_t b = add_step(g, {empty}, m.at(2), m.at(3), 2);
  cudaGraphNode_t both[] = {a, b};
  cudaHostNodeParams h{&tools::count, &t};
  cuda::check(cudaGraphAddHostNode(&call, g, both, 2, &h), "node");
  cuda::check(cudaGraphAddEventRecordNode(&record, g, &call, 1, t.outside), "node");
  cuda::check(cudaGraphAddEventWaitNode(&wait, g, &record, 1, t.outside), "node");
  const cudaGraphNode_t c = add_step(g, {wait}, m.at(1), m.at(4), 3);
  const cudaGraphNode_t d = add_step(g, {wait}, m.at(3), m.at(5), 4);
  both[0] = c;
  both[1] = d;
  cuda::check(cudaGraphAddEmptyNode(&empty, g, both, 2), "node");
  add_step(g, {empty}, m.at(4), m.at(5), 5);
  return g;
}

/// A graph in a graph in a graph, each with steps before, beside and after it.
cudaGraph_t nested(tools& t) {
  const arena& m = t.memory;
  cudaGraph_t inner = new_graph();
  const cudaGraphNode_t i1 = add_step(inner, {}, m.at(0), m.at(1), 1);
  const cudaGraphNode_t i2 = add_step(inner, {}, m.at(2), m.at(3), 2);
  add_step(inner, {i1, i2}, m.at(1), m.at(2), 3);
  cudaGraph_t middle = new_graph();
  const cudaGraphNode_t m1 = add_step(middle, {}, m.at(1), m.at(0), 4);
  cudaGraphNode_t child;
  cuda::check(cudaGraphAddChildGraphNode(&child, middle, &m1, 1, inner), "node");
  add_step(middle, {child}, m.at(2), m.at(4), 5);
  cudaGraph_t outer = new_graph();
  const cudaGraphNode_t o1 = add_step(outer, {}, m.at(5), m.at(1), 6);
  cuda::check(cudaGraphAddChildGraphNode(&child, outer, &o1, 1, middle), "node");
  const cudaGraphNode_t o2 = add_step(outer, {o1}, m.at(6), m.at(7), 7);
  const cudaGraphNode_t o3 = add_step(outer, {child, o2}, m.at(4), m.at(5), 8);
  cuda::check(cudaGraphAddChildGraphNode(&child, outer, &o3, 1, inner), "node");
  cuda::check(cudaGraphDestroy(inner), "graph");
  cuda::check(cudaGraphDestroy(middle), "graph");
  return outer;
}

struct sample {
  std::string name;
  std::function<cudaGraph_t(tools&)> make;
  std::size_t operations;
  bool needs_clusters = false;
  int calls = 0; ///< of the host function, per run
};

std::vector<sample> samples() {
  const auto of = [](void (*f)(tools&, cudaStream_t)) {
    return [f](tools& t) { return captured(t, f); };
  };
  return {{"chain", of(chain), 10},
          {"fork and join", of(fork_join), 14},
          {"copies and sets", of(copies), 9},
          {"odd sets and copies in branches", of(odd_work), 14},
          {"clusters", of(clustered), 5, true},
          {"programmatic edges", of(early), 8, true},
          {"instrumented", of(reporting), 6},
          {"other nodes", with_others, 5, false, 1},
          {"nested child graphs", nested, 11}};
}

std::vector<std::size_t> random_ends(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::size_t> ends;
  for (std::size_t i = 1; i < size; ++i)
    if (random() % 3 == 0) ends.push_back(i);
  ends.push_back(size);
  return ends;
}

TEST_CASE("a program run in any ranges gives the result of the whole graph, bit by bit") {
  GSCHED_NEEDS_GPU();
  tools t;
  runner on;
  for (const sample& s : samples()) {
    if (s.needs_clusters && !has_clusters()) continue;
    INFO(s.name);
    cudaGraph_t g = s.make(t);
    t.memory.reset();
    on.run(g);
    const auto expected = t.memory.snapshot();
    cuda::program p(g, named(s.name));
    cuda::check(cudaGraphDestroy(g), "graph"); // the program keeps a clone
    REQUIRE(p.host().size() == s.operations);

    std::vector<std::vector<std::size_t>> cuts;
    for (unsigned seed = 0; seed < 6; ++seed) cuts.push_back(random_ends(s.operations, seed));
    cuts.push_back({s.operations});
    cuts.emplace_back();
    for (std::size_t i = 1; i <= s.operations; ++i) cuts.back().push_back(i);
    for (const auto& ends : cuts) {
      t.memory.reset();
      t.calls = 0;
      run_cut(on, p, ends);
      CHECK(t.memory.snapshot() == expected);
      CHECK(t.calls == s.calls);
    }
    t.memory.reset();
    cuda::check(p.launch_each(0, s.operations, on.stream(), {}), "launches");
    cuda::check(cudaStreamSynchronize(on.stream()), "launches");
    CHECK(t.memory.snapshot() == expected);
    // The test detects a skipped range.
    t.memory.reset();
    on.run_and_destroy(p.make_range(1, s.operations, {}));
    CHECK(t.memory.snapshot() != expected);
  }
}

/// The kernels and edges of a level, with their attributes, in a canonical order.
std::vector<std::array<int, 4>> carried(CUgraph g) {
  const cuda::driver_functions& d = cuda::driver();
  std::vector<std::array<int, 4>> all;
  std::size_t count = 64;
  std::vector<CUgraphNode> nodes(count), to(count);
  std::vector<CUgraphEdgeData> data(count);
  cuda::check(d.cuGraphGetNodes(g, nodes.data(), &count), "nodes");
  for (std::size_t i = 0; i < count; ++i) {
    CUgraphNodeType type{};
    cuda::check(d.cuGraphNodeGetType(nodes[i], &type), "node");
    CUkernelNodeAttrValue cluster{}, priority{};
    if (type == CU_GRAPH_NODE_TYPE_KERNEL) {
      cuda::check(d.cuGraphKernelNodeGetAttribute(
                      nodes[i], CU_KERNEL_NODE_ATTRIBUTE_CLUSTER_DIMENSION, &cluster),
                  "node");
      cuda::check(
          d.cuGraphKernelNodeGetAttribute(nodes[i], CU_KERNEL_NODE_ATTRIBUTE_PRIORITY, &priority),
          "node");
    }
    all.push_back(
        {0, static_cast<int>(type), static_cast<int>(cluster.clusterDim.x), priority.priority});
  }
  count = data.size();
  cuda::check(d.cuGraphGetEdges(g, nodes.data(), to.data(), data.data(), &count), "edges");
  for (std::size_t i = 0; i < count; ++i) all.push_back({1, data[i].type, data[i].from_port, 0});
  std::sort(all.begin(), all.end());
  return all;
}

bool all_made_for(CUgraph g, CUcontext place) {
  const cuda::driver_functions& d = cuda::driver();
  std::size_t count = 64;
  std::vector<CUgraphNode> nodes(count);
  cuda::check(d.cuGraphGetNodes(g, nodes.data(), &count), "nodes");
  bool all = true;
  for (std::size_t i = 0; i < count; ++i) {
    CUgraphNodeType type{};
    cuda::check(d.cuGraphNodeGetType(nodes[i], &type), "node");
    if (type != CU_GRAPH_NODE_TYPE_KERNEL) continue;
    CUDA_KERNEL_NODE_PARAMS k{};
    cuda::check(d.cuGraphKernelNodeGetParams(nodes[i], &k), "node");
    all = all && k.ctx == place;
  }
  return all;
}

TEST_CASE("ranges placed on SMs compute the same and keep all other attributes") {
  GSCHED_NEEDS_GPU();
  const cuda::driver_functions& d = cuda::driver();
  tools t;
  runner on;
  const cuda::partition own(0, sm_count{8});
  const CUcontext place = own.context();
  const CUstream there = own.make_stream(0);
  for (const sample& s : samples()) {
    if (s.needs_clusters && !has_clusters()) continue;
    INFO(s.name);
    cudaGraph_t g = s.make(t);
    t.memory.reset();
    on.run(g);
    const auto expected = t.memory.snapshot();
    cuda::program p(g, named(s.name));
    cuda::check(cudaGraphDestroy(g), "graph");
    for (unsigned seed = 0; seed < 4; ++seed) {
      t.memory.reset();
      std::size_t first = 0;
      for (const std::size_t last : random_ends(s.operations, seed)) {
        const CUgraph plain = p.make_range(first, last, {});
        const CUgraph placed = p.make_range(first, last, {.place = place});
        CHECK(carried(placed) == carried(plain));
        cuda::check(d.cuGraphDestroy(plain), "graph");
        CHECK(all_made_for(placed, place));
        CUgraphExec e = nullptr;
        cuda::check(d.cuGraphInstantiateWithFlags(&e, placed,
                                                  CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY),
                    "graph");
        cuda::check(d.cuGraphLaunch(e, there), "graph");
        cuda::check(cudaStreamSynchronize(there), "graph");
        cuda::check(d.cuGraphExecDestroy(e), "graph");
        cuda::check(d.cuGraphDestroy(placed), "graph");
        first = last;
      }
      CHECK(t.memory.snapshot() == expected);
    }
  }
  cuda::check(d.cuStreamDestroy(there), "stream");
}

TEST_CASE("ranges with open gates, placed on SMs or not, give the result of the whole graph") {
  GSCHED_NEEDS_GPU();
  const cuda::driver_functions& d = cuda::driver();
  tools t;
  runner on;
  const cuda::partition own(0, sm_count{8});
  const CUstream there = own.make_stream(0);
  void* line = nullptr; // zeros: all gates are open
  void* look_at = nullptr;
  cuda::check(cudaHostAlloc(&line, 64, cudaHostAllocMapped), "memory");
  std::fill_n(static_cast<char*>(line), 64, char{0});
  cuda::check(cudaHostGetDevicePointer(&look_at, line, 0), "memory");
  for (const sample& s : samples()) {
    if (s.needs_clusters && !has_clusters()) continue;
    INFO(s.name);
    cudaGraph_t g = s.make(t);
    t.memory.reset();
    on.run(g);
    const auto expected = t.memory.snapshot();
    cuda::program p(g, named(s.name));
    cuda::check(cudaGraphDestroy(g), "graph");
    for (const unsigned every : {1u, 2u, 4u})
      for (const CUcontext place : {CUcontext{}, own.context()}) {
        CAPTURE(every);
        std::vector<cuda::gate> gates;
        t.memory.reset();
        std::size_t first = 0;
        std::size_t made = 0;
        for (const std::size_t last : {s.operations / 3, s.operations}) {
          const CUgraph graph = p.make_range(first, last,
                                             {.place = place,
                                              .gate_every = every,
                                              .gate_words = reinterpret_cast<CUdeviceptr>(look_at),
                                              .gates = &gates});
          for (const cuda::gate& each : gates) {
            CHECK(each.operation > first);
            CHECK(each.operation + 1 < last);
          }
          made += gates.size();
          CUgraphExec e = nullptr;
          cuda::check(d.cuGraphInstantiateWithFlags(&e, graph,
                                                    CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY),
                      "graph with gates");
          const CUstream stream = place != nullptr ? there : on.stream();
          cuda::check(d.cuGraphLaunch(e, stream), "graph with gates");
          cuda::check(cudaStreamSynchronize(stream), "graph with gates");
          cuda::check(d.cuGraphExecDestroy(e), "graph");
          cuda::check(d.cuGraphDestroy(graph), "graph");
          first = last;
        }
        // A range with a host function cannot be held.
        CHECK((made > 0 || every > 1 || s.calls > 0));
        if (s.calls > 0) CHECK(made == 0);
        CHECK(t.memory.snapshot() == expected);
      }
  }
  cudaFreeHost(line);
  cuda::check(d.cuStreamDestroy(there), "stream");
}

TEST_CASE("a change of the graph after the program was made has no effect") {
  GSCHED_NEEDS_GPU();
  tools t;
  runner on;
  cudaGraph_t g = captured(t, chain);
  t.memory.reset();
  on.run(g);
  const auto expected = t.memory.snapshot();
  cuda::program p(g, named("changed"));
  std::vector<cudaGraphNode_t> nodes(10);
  std::size_t count = nodes.size();
  cuda::check(cudaGraphGetNodes(g, nodes.data(), &count), "nodes");
  int changed = 0;
  for (const cudaGraphNode_t node : nodes) {
    cudaKernelNodeParams k{};
    cuda::check(cudaGraphKernelNodeGetParams(node, &k), "node");
    if (k.func != reinterpret_cast<void*>(step)) continue;
    word salt = 999;
    void* arguments[] = {k.kernelParams[0], k.kernelParams[1], k.kernelParams[2], &salt};
    k.kernelParams = arguments;
    cuda::check(cudaGraphKernelNodeSetParams(node, &k), "node");
    ++changed;
  }
  REQUIRE(changed == 9);
  t.memory.reset();
  on.run(g);
  CHECK(t.memory.snapshot() != expected);
  t.memory.reset();
  run_cut(on, p, {4, 10});
  CHECK(t.memory.snapshot() == expected);
  cuda::check(cudaGraphDestroy(g), "graph");
}

TEST_CASE("kernels: shape, resources, names and ids") {
  GSCHED_NEEDS_GPU();
  tools t;
  cudaGraph_t g = captured(t, chain);
  cuda::program_options how = named("chain");
  for (int i = 0; i < 10; ++i) how.durations.push_back(std::chrono::microseconds(i + 1));
  cuda::program p(g, how);
  cuda::check(cudaGraphDestroy(g), "graph");
  const auto all = p.host().operations();
  const operation& first = all[0];
  cudaFuncAttributes is{};
  cuda::check(cudaFuncGetAttributes(&is, step), "kernel");
  CHECK(first.kind == operation_kind::kernel);
  CHECK(first.launch.grid == extent{blocks, 1, 1});
  CHECK(first.launch.block == extent{threads, 1, 1});
  CHECK(first.launch.registers_per_thread == static_cast<std::uint32_t>(is.numRegs));
  CHECK(first.launch.cluster_blocks == 1);
  CHECK(p.facts()[0].symbol.find("step") != std::string::npos);
  CHECK(p.facts()[0].local_bytes == is.localSizeBytes);
  CHECK(!p.facts()[0].instrumented);
  int fit = 0;
  cuda::check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&fit, step, threads, 0), "occupancy");
  CHECK(first.max_blocks_per_sm == static_cast<std::uint32_t>(fit));
  for (int i = 1; i < 9; ++i) CHECK(all[i].kernel == first.kernel);
  CHECK(all[9].kernel != first.kernel);
  CHECK(all[9].launch.dynamic_shared_bytes == threads * sizeof(word));
  CHECK(all[9].launch.static_shared_bytes == 64 * sizeof(word));
  for (std::uint32_t i = 0; i < 10; ++i) {
    CHECK(all[i].expected == std::chrono::microseconds(i + 1));
    CHECK(p.facts()[i].after == (i == 0 ? std::vector<std::uint32_t>{} : std::vector{i - 1}));
  }
}

TEST_CASE("copies and sets: direction and bytes") {
  GSCHED_NEEDS_GPU();
  tools t;
  cudaGraph_t g = captured(t, copies);
  const cuda::program p(g, named("copies"));
  cuda::check(cudaGraphDestroy(g), "graph");
  const auto all = p.host().operations();
  const auto is_copy = [&](std::size_t i, copy_direction d, std::uint64_t bytes) {
    CHECK(all[i].kind == operation_kind::memcpy);
    CHECK(all[i].direction == d);
    CHECK(all[i].bytes == byte_count{bytes});
  };
  is_copy(0, copy_direction::host_to_device, arena::row_bytes);
  is_copy(2, copy_direction::device_to_device, arena::row_bytes);
  is_copy(3, copy_direction::device_to_device, 3000);
  is_copy(8, copy_direction::device_to_host, arena::row_bytes);
  CHECK(all[5].kind == operation_kind::memset);
  CHECK(all[5].bytes == byte_count{1000});
  CHECK(all[6].kind == operation_kind::memset);
  CHECK(all[6].bytes == byte_count{1400});
}

TEST_CASE("forks, child graphs and nodes without work: the dependencies") {
  GSCHED_NEEDS_GPU();
  using after = std::vector<std::uint32_t>;
  tools t;
  cudaGraph_t g = with_others(t);
  const cuda::program others(g, named("others"));
  cuda::check(cudaGraphDestroy(g), "graph");
  CHECK(others.facts()[2].after == after{0, 1});
  CHECK(others.facts()[3].after == after{0, 1});
  CHECK(others.facts()[4].after == after{2, 3});
  g = nested(t);
  const cuda::program p(g, named("nested"));
  cuda::check(cudaGraphDestroy(g), "graph");
  // By depth: 0; then 1 in the child graph and 2 beside it; 3 and 4, 5, 6 in the child graph; 7;
  // then 8, 9, 10 in another one.
  const std::vector<after> expected{{}, {0}, {0}, {1}, {1}, {3, 4}, {5}, {2, 6}, {7}, {7}, {8, 9}};
  REQUIRE(p.facts().size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK(p.facts()[i].after == expected[i]);
}

/// Calls f with each node of a graph, which is destroyed.
template <class F>
void for_each_node(cudaGraph_t g, F f) {
  std::size_t count = 0;
  cuda::check(cudaGraphGetNodes(g, nullptr, &count), "nodes");
  std::vector<cudaGraphNode_t> nodes(count);
  cuda::check(cudaGraphGetNodes(g, nodes.data(), &count), "nodes");
  for (const cudaGraphNode_t node : nodes) f(node);
  cuda::check(cudaGraphDestroy(g), "graph");
}

TEST_CASE("nodes that do nothing become edges") {
  GSCHED_NEEDS_GPU();
  tools t;
  const auto types = [](cudaGraph_t of) {
    std::vector<cudaGraphNodeType> all;
    for_each_node(of, [&](cudaGraphNode_t node) {
      all.emplace_back();
      cuda::check(cudaGraphNodeGetType(node, &all.back()), "node");
    });
    return all;
  };
  cudaGraph_t g = nested(t);
  const cuda::program p(g, named("nested"));
  cuda::check(cudaGraphDestroy(g), "graph");
  CHECK(types(p.make_range(0, 11, {})) ==
        std::vector<cudaGraphNodeType>(11, cudaGraphNodeTypeKernel));
  g = with_others(t);
  const cuda::program others(g, named("others"));
  cuda::check(cudaGraphDestroy(g), "graph");
  const auto kept = types(others.make_range(0, 5, {})); // 5 kernels, 2 event nodes and a host node
  CHECK(kept.size() == 8);
  CHECK(std::find(kept.begin(), kept.end(), cudaGraphNodeTypeEmpty) == kept.end());
}

TEST_CASE("ranges keep clusters, priorities and programmatic edges") {
  GSCHED_NEEDS_GPU();
  tools t;
  cudaGraph_t g = captured(t, fork_join);
  const cuda::program forked(g, named("forked"));
  cuda::check(cudaGraphDestroy(g), "graph");
  int least = 0, most = 0, high = 0;
  cuda::check(cudaDeviceGetStreamPriorityRange(&least, &most), "priorities");
  const auto count_high = [&](cudaGraphNode_t node) {
    cudaKernelNodeAttrValue v{};
    cuda::check(cudaGraphKernelNodeGetAttribute(node, cudaKernelNodeAttributePriority, &v), "node");
    high += v.priority == most ? 1 : 0;
  };
  for_each_node(forked.make_range(0, forked.host().size(), {}), count_high);
  CHECK(high == 8);
  // Sets and copies have the priority of the kernels of their branch.
  g = captured(t, odd_work);
  const cuda::program odd(g, named("odd"));
  cuda::check(cudaGraphDestroy(g), "graph");
  high = 0;
  for_each_node(odd.make_range(0, odd.host().size(), {}), count_high);
  CHECK(high == 5);
  if (!has_clusters()) return;

  g = captured(t, clustered);
  const cuda::program p(g, named("clusters"));
  cuda::check(cudaGraphDestroy(g), "graph");
  CHECK(p.host().operations()[2].launch.cluster_blocks == 4);
  int clusters = 0;
  for_each_node(p.make_range(1, 3, {}), [&](cudaGraphNode_t node) {
    cudaKernelNodeAttrValue v{};
    cuda::check(cudaGraphKernelNodeGetAttribute(node, cudaKernelNodeAttributeClusterDimension, &v),
                "node");
    clusters += v.clusterDim.x == 4 ? 1 : 0;
  });
  CHECK(clusters == 2);

  g = captured(t, early);
  const cuda::program edges(g, named("early"));
  cuda::check(cudaGraphDestroy(g), "graph");
  cudaGraph_t range = edges.make_range(2, 6, {});
  std::size_t count = 8;
  std::vector<cudaGraphNode_t> from(count), to(count);
  std::vector<cudaGraphEdgeData> data(count);
  cuda::check(cudaGraphGetEdges(range, from.data(), to.data(), data.data(), &count), "edges");
  CHECK(count == 3);
  for (std::size_t i = 0; i < count; ++i)
    CHECK(data[i].type == cudaGraphDependencyTypeProgrammatic);
  cuda::check(cudaGraphDestroy(range), "graph");
}

TEST_CASE("in a graph of full and programmatic edges each edge keeps its kind") {
  GSCHED_NEEDS_GPU();
  if (!has_clusters()) return;
  tools t;
  const arena& m = t.memory;
  cudaGraph_t g = new_graph();
  const cudaGraphNode_t a = add_step(g, {}, m.at(0), m.at(1), 1);
  const cudaGraphNode_t b = add_step(g, {}, m.at(2), m.at(3), 2);
  const cudaGraphNode_t c = add_step(g, {a}, m.at(1), m.at(4), 3);
  const cudaGraphNode_t d = add_step(g, {c, b}, m.at(4), m.at(5), 4);
  cudaGraphEdgeData early{};
  early.from_port = cudaGraphKernelNodePortProgrammatic;
  early.type = cudaGraphDependencyTypeProgrammatic;
  cuda::check(cudaGraphAddDependencies(g, &a, &b, &early, 1), "edge");
  static_cast<void>(d);
  const auto kinds_of = [](cudaGraph_t of) { // number of edges of each kind
    std::size_t count = 16;
    std::vector<cudaGraphNode_t> from(count), to(count);
    std::vector<cudaGraphEdgeData> data(count);
    cuda::check(cudaGraphGetEdges(of, from.data(), to.data(), data.data(), &count), "edges");
    std::array<int, 2> kinds{};
    for (std::size_t i = 0; i < count; ++i) {
      ++kinds[data[i].type == cudaGraphDependencyTypeProgrammatic ? 1 : 0];
      CHECK((data[i].from_port == cudaGraphKernelNodePortProgrammatic) ==
            (data[i].type == cudaGraphDependencyTypeProgrammatic));
    }
    return kinds;
  };
  CHECK(kinds_of(g) == std::array<int, 2>{3, 1});
  const cuda::program p(g, named("edges"));
  cuda::check(cudaGraphDestroy(g), "graph");
  const cudaGraph_t range = p.make_range(0, 4, {});
  CHECK(kinds_of(range) == std::array<int, 2>{3, 1});
  cuda::check(cudaGraphDestroy(range), "graph");
}

TEST_CASE("instrumented kernels use the given reports, the others are unchanged") {
  GSCHED_NEEDS_GPU();
  tools t;
  runner on;
  cudaGraph_t g = captured(t, reporting);
  const cuda::program p(g, named("reporting"));
  cuda::check(cudaGraphDestroy(g), "graph");
  CHECK(p.facts()[0].instrumented);
  CHECK(!p.facts()[1].instrumented);
  CHECK(p.instrumented(0, 6) == 3);
  CHECK(p.instrumented(1, 3) == 1);
  CHECK(p.instrumented(1, 2) == 0);
  word* counts = nullptr;
  cuda::check(cudaMalloc(&counts, 3 * sizeof(word)), "memory");
  cuda::check(cudaMemset(counts, 0, 3 * sizeof(word)), "memory");
  std::vector<cuda::report> to(3);
  for (int i = 0; i < 3; ++i) to[i].counters = reinterpret_cast<cuda::launch_counters*>(counts + i);
  const auto counted = [&] {
    std::vector<word> now(3);
    cuda::check(cudaMemcpy(now.data(), counts, 3 * sizeof(word), cudaMemcpyDeviceToHost), "memory");
    return now;
  };
  on.run_and_destroy(p.make_range(0, 6, {}));
  CHECK(counted() == std::vector<word>{0, 0, 0});
  on.run_and_destroy(p.make_range(0, 6, {.reports = to}));
  CHECK(counted() == std::vector<word>{1, 1, 1});
  on.run_and_destroy(p.make_range(1, 3, {.reports = std::span(to).subspan(2, 1)}));
  CHECK(counted() == std::vector<word>{1, 1, 2});
  cuda::check(p.launch_each(0, 3, on.stream(), std::span(to).first(2)), "launches");
  cuda::check(cudaStreamSynchronize(on.stream()), "launches");
  CHECK(counted() == std::vector<word>{2, 2, 2});
  CHECK(line_of([&] { static_cast<void>(p.make_range(0, 6, {.reports = std::span(to).first(2)})); },
                errc::bad_option)
            .find("2 reports, expected 3") != std::string::npos);
  cudaFree(counts);
}

TEST_CASE("unsupported nodes are named") {
  GSCHED_NEEDS_GPU();
  tools t;
  const auto refused = [&](cudaGraph_t g, const char* expected) {
    const std::string line =
        line_of([&] { const cuda::program p(g, named("odd")); }, errc::bad_graph);
    CHECK_MESSAGE(line.find(expected) != std::string::npos, line);
    cuda::check(cudaGraphDestroy(g), "graph");
  };
  cudaGraph_t g = new_graph();
  refused(g, "graph odd: nothing to run, expected a kernel, memcpy or memset");
  g = new_graph();
  cudaGraphNode_t node;
  cuda::check(cudaGraphAddEmptyNode(&node, g, nullptr, 0), "node");
  refused(g, "graph odd: nothing to run");

  g = new_graph();
  const cudaGraphNode_t a = add_step(g, {}, t.memory.at(0), t.memory.at(1), 1);
  cudaMemAllocNodeParams m{};
  m.poolProps.allocType = cudaMemAllocationTypePinned;
  m.poolProps.location.type = cudaMemLocationTypeDevice;
  m.bytesize = 1 << 20;
  cuda::check(cudaGraphAddMemAllocNode(&node, g, &a, 1, &m), "node");
  refused(g, "graph odd: node 1 is a memory allocation, expected kernel, memcpy, memset, host, "
             "event, empty or child graph");

  g = new_graph();
  cudaGraphConditionalHandle handle{};
  cuda::check(cudaGraphConditionalHandleCreate(&handle, g, 0, 0), "condition");
  cudaGraphNodeParams c{};
  c.type = cudaGraphNodeTypeConditional;
  c.conditional.handle = handle;
  c.conditional.type = cudaGraphCondTypeIf;
  c.conditional.size = 1;
  cuda::check(cudaGraphAddNode(&node, g, nullptr, nullptr, 0, &c), "node");
  refused(g, "graph odd: node 0 is a conditional");
}

TEST_CASE("a graph whose memory belongs to another GPU is refused") {
  GSCHED_NEEDS_GPU();
  if (gpus_here() < 2) {
    MESSAGE("one GPU here: passed over");
    return;
  }
  word* there[2] = {};
  word* here = nullptr;
  word* pinned = nullptr;
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  REQUIRE(cudaMalloc(&here, 4096) == cudaSuccess);
  REQUIRE(cudaMallocHost(&pinned, 4096) == cudaSuccess);
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  for (word*& w : there) REQUIRE(cudaMalloc(&w, 4096) == cudaSuccess);
  const auto line_of = [&](auto launch) {
    REQUIRE(cudaSetDevice(1) == cudaSuccess);
    cudaStream_t s = nullptr;
    cudaGraph_t g = nullptr;
    REQUIRE(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking) == cudaSuccess);
    REQUIRE(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed) == cudaSuccess);
    launch(s);
    REQUIRE(cudaStreamEndCapture(s, &g) == cudaSuccess);
    REQUIRE(cudaSetDevice(0) == cudaSuccess);
    cuda::program_options how;
    how.name = "foreign";
    how.measure = false;
    std::string line;
    try {
      cuda::program p(g, how);
    } catch (const error& thrown) {
      CHECK(thrown.code() == errc::bad_graph);
      line = thrown.what();
    }
    cudaGraphDestroy(g);
    cudaStreamDestroy(s);
    return line;
  };
  const auto copy = [](word* to, const word* from) {
    return [=](cudaStream_t s) { cudaMemcpyAsync(to, from, 4096, cudaMemcpyDefault, s); };
  };
  const std::string expected = "GPU 1, expected ";
  const auto kernel = [](const word* in, word* out) {
    return [=](cudaStream_t s) { step<<<1, 32, 0, s>>>(in, out, 32, 7); };
  };
  CHECK(line_of(kernel(there[0], there[1])).find(expected) != std::string::npos);
  CHECK(line_of([&](cudaStream_t s) { cudaMemsetAsync(there[0], 0, 4096, s); }).find(expected) !=
        std::string::npos);
  CHECK(line_of(copy(there[0], there[1])).find(expected) != std::string::npos);
  CHECK(line_of(copy(there[0], pinned)).find(expected) != std::string::npos);
  CHECK(line_of(copy(pinned, there[0])).find(expected) != std::string::npos);
  CHECK(line_of(copy(here, there[0])) == "");
  CHECK(line_of(copy(here, pinned)) == "");
  cudaSetDevice(1);
  for (word* w : there) cudaFree(w);
  cudaSetDevice(0);
  cudaFree(here);
  cudaFreeHost(pinned);
}

TEST_CASE("the number of durations must be that of the operations") {
  GSCHED_NEEDS_GPU();
  tools t;
  cudaGraph_t g = captured(t, chain);
  cuda::program_options how = named("chain");
  how.durations.assign(9, std::chrono::microseconds(1));
  CHECK(line_of([&] { const cuda::program p(g, how); }, errc::bad_option) ==
        "graph chain: 9 durations, expected 10, one for each operation");
  const cuda::program p(g, named("chain"));
  CHECK(p.host().operations()[3].expected == std::chrono::microseconds(5));
  CHECK(!p.graph_replay());
  cuda::check(cudaGraphDestroy(g), "graph");
}

TEST_CASE("a program is found by its host program, also after a move") {
  GSCHED_NEEDS_GPU();
  tools t;
  cudaGraph_t g = captured(t, chain);
  cuda::program p(g, named("chain"));
  cuda::check(cudaGraphDestroy(g), "graph");
  gsched::program* const host = &p.host();
  CHECK(cuda::program::of(*host) == &p);
  cuda::program q = std::move(p);
  CHECK(cuda::program::of(*host) == &q);
  CHECK(&q.host() == host);
  const gsched::program other("other", {operation{}});
  CHECK(cuda::program::of(other) == nullptr);
}

TEST_CASE("measured times are those for which kernels spin") {
  GSCHED_NEEDS_GPU();
  tools t;
  const std::vector<double> us{10, 50, 200, 10, 50};
  cudaGraph_t g = captured(t, [&](tools&, cudaStream_t s) {
    for (const double u : us) spin<<<4, 32, 0, s>>>(static_cast<std::uint64_t>(u * 1000));
  });
  cuda::program_options how;
  how.name = "spin";
  const cuda::program p(g, how);
  cuda::check(cudaGraphDestroy(g), "graph");
  double sum = 0;
  for (std::size_t i = 0; i < us.size(); ++i) {
    const double got = to_us(p.host().operations()[i].expected);
    MESSAGE("spun for " << us[i] << " us, measured " << got);
    CHECK(got > 0.9 * us[i]);
    CHECK(got < 1.1 * us[i]);
    sum += us[i];
  }
  REQUIRE(p.graph_replay());
  MESSAGE("the whole graph: " << to_us(*p.graph_replay()) << " us");
  CHECK(to_us(*p.graph_replay()) > sum);
  CHECK(to_us(*p.graph_replay()) < 1.1 * sum);
}

TEST_CASE("overlapping time counts once, and graphs of all kinds can be measured") {
  GSCHED_NEEDS_GPU();
  tools t;
  cudaGraph_t g = captured(t, [&](tools& with, cudaStream_t s) {
    with.fork(s, 0, 0);
    with.fork(s, 1, 1);
    for (cudaStream_t one : {s, with.side[0], with.side[1]}) spin<<<4, 32, 0, one>>>(100'000);
    with.join(0, s, 2);
    with.join(1, s, 3);
  });
  cuda::program_options how;
  how.name = "wide";
  const cuda::program wide(g, how);
  cuda::check(cudaGraphDestroy(g), "graph");
  CHECK(to_us(wide.host().expected()) < 130);
  CHECK(to_us(wide.host().expected()) > 90);
  for (const sample& s : samples()) {
    if (s.needs_clusters && !has_clusters()) continue;
    INFO(s.name);
    g = s.make(t);
    how.name = s.name;
    const cuda::program p(g, how);
    cuda::check(cudaGraphDestroy(g), "graph");
    REQUIRE(p.graph_replay());
    CHECK(p.host().expected() > duration::zero());
    CHECK(p.host().expected() <= *p.graph_replay() + std::chrono::nanoseconds(s.operations));
  }
}

} // namespace
} // namespace gsched::testing

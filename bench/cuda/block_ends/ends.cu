// SPDX-License-Identifier: Apache-2.0
#include "block_ends/ends.hpp"

#include "hold_registers.cuh"

#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr unsigned all_threads = 1024, all_registers = 64; // a block of these fills an SM
constexpr std::uint64_t give_up_ns = 20'000'000;

struct record {
  std::uint64_t held = 0;  ///< when the first kernel let the others start
  std::uint64_t after = 0; ///< when a kernel behind the measured one started
  std::uint32_t started = 0;
  std::uint32_t gave_up = 0;
};

__device__ std::uint64_t now_ns() {
  std::uint64_t ns;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns)::"memory");
  return ns;
}

__global__ void hold(record* r, std::uint64_t ns) {
  const std::uint64_t start = now_ns();
  while (now_ns() - start < ns) {
  }
  r->held = now_ns();
}
__global__ void nothing() {}
__global__ void after(record* r) { r->after = now_ns(); }

/// Keeps its SM until each SM has a block.
__global__ void __maxnreg__(all_registers)
    take_sm(record* r, std::uint64_t* starts, std::uint32_t* never) {
  if (never != nullptr)
    gsched::cuda::hold_registers(never, std::make_index_sequence<all_registers - 8>{});
  if (threadIdx.x != 0) return;
  const std::uint64_t start = now_ns();
  starts[blockIdx.x] = start;
  atomicAdd(&r->started, 1);
  while (*static_cast<volatile std::uint32_t*>(&r->started) < gridDim.x) {
    if (now_ns() - start < give_up_ns) continue;
    r->gave_up = 1;
    return;
  }
}

__global__ void __maxnreg__(all_registers)
    known(std::uint64_t ns, std::uint64_t more_ns, std::uint32_t* never) {
  if (never != nullptr)
    gsched::cuda::hold_registers(never, std::make_index_sequence<all_registers - 8>{});
  const std::uint64_t start = now_ns(), all = ns + more_ns * blockIdx.x / gridDim.x;
  while (now_ns() - start < all) {
  }
}

void check(cudaError_t e, const char* what) {
  if (e != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(e));
}
void check(CUresult e, const char* what) {
  const char* text = "?";
  if (e == CUDA_SUCCESS) return;
  cuGetErrorString(e, &text);
  throw std::runtime_error(std::string(what) + ": " + text);
}

double median(std::vector<double>& of) {
  std::nth_element(of.begin(), of.begin() + static_cast<std::ptrdiff_t>(of.size() / 2), of.end());
  return of[of.size() / 2];
}

template <class... A>
cudaGraphNode_t add(cudaGraph_t to, cudaGraphNode_t behind, void (*f)(A...), unsigned blocks,
                    unsigned threads, A... arguments) {
  void* pointers[] = {&arguments..., nullptr};
  cudaKernelNodeParams p{};
  p.func = reinterpret_cast<void*>(f);
  p.gridDim = dim3(blocks);
  p.blockDim = dim3(threads);
  p.kernelParams = pointers;
  cudaGraphNode_t node{};
  check(cudaGraphAddKernelNode(&node, to, behind ? &behind : nullptr, behind ? 1 : 0, &p), "add");
  return node;
}

class bench {
public:
  explicit bench(std::uint32_t sms) : sms_(sms) {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
    check(cudaMalloc(&record_, sizeof(record)), "memory");
    check(cudaMalloc(&starts_, sms * sizeof(std::uint64_t)), "memory");
  }
  ~bench() {
    for (const step& s : steps_) {
      cudaGraphExecDestroy(s.alone);
      if (s.beside != nullptr) cudaGraphExecDestroy(s.beside);
    }
    cudaFree(record_);
    cudaFree(starts_);
    cudaStreamDestroy(stream_);
  }
  bench(const bench&) = delete;
  bench& operator=(const bench&) = delete;

  /// Each pass runs all nodes in their order, each alone and then beside blocks that wait: kernels
  /// count on what those before them left behind, as counters that were cleared.
  std::int64_t run(CUgraph graph, std::uint32_t repeats, block_ends_row* rows, std::uint64_t most) {
    std::size_t n = 0;
    check(cuGraphGetNodes(graph, nullptr, &n), "nodes");
    std::vector<CUgraphNode> nodes(n);
    check(cuGraphGetNodes(graph, nodes.data(), &n), "nodes");
    for (std::size_t i = 0; i < n; ++i) {
      step s;
      CUgraphNodeType type{};
      check(cuGraphNodeGetType(nodes[i], &type), "node");
      if (type == CU_GRAPH_NODE_TYPE_KERNEL && measured_ < most) {
        s.row = &rows[measured_++];
        s.row->operation = static_cast<std::uint32_t>(i);
        describe(nodes[i], *s.row);
        s.beside = made(nodes[i], true);
        s.ends.resize(sms_);
      }
      s.alone = made(nodes[i], false);
      steps_.push_back(std::move(s));
    }
    for (std::uint32_t i = 0; i <= repeats; ++i)
      for (const bool beside : {false, true})
        for (step& s : steps_) pass(s, beside, i > 0);
    for (step& s : steps_) {
      if (s.row == nullptr) continue;
      s.row->alone_us = median(s.took);
      for (std::uint32_t k = 0; k < sms_; ++k) s.row->ends_us[k] = median(s.ends[k]);
    }
    return static_cast<std::int64_t>(measured_);
  }

private:
  struct step {
    block_ends_row* row = nullptr;
    cudaGraphExec_t alone{}, beside{};
    std::vector<double> took{};
    std::vector<std::vector<double>> ends{}; ///< of each SM, in order
  };

  /// hold, then the node, and a kernel behind it or beside it, a little later: one that needs all SMs.
  cudaGraphExec_t made(CUgraphNode node, bool beside) {
    cudaGraph_t g{};
    check(cudaGraphCreate(&g, 0), "graph");
    const cudaGraphNode_t first = add(g, nullptr, hold, 1, 1, record_, std::uint64_t{3000});
    const CUgraphNode copy = copied(node, g, first);
    if (beside) {
      const cudaGraphNode_t later = add(g, first, nothing, 1, 1);
      add(g, later, take_sm, sms_, all_threads, record_, starts_,
          static_cast<std::uint32_t*>(nullptr));
    } else {
      add(g, copy, after, 1, 1, record_);
    }
    cudaGraphExec_t exec{};
    check(cudaGraphInstantiate(&exec, g, 0), "instantiate");
    cudaGraphDestroy(g);
    return exec;
  }

  static CUgraphNode copied(CUgraphNode node, cudaGraph_t g, cudaGraphNode_t behind) {
    CUgraphNode copy{};
    CUgraphNodeType type{};
    check(cuGraphNodeGetType(node, &type), "node");
    CUcontext context{};
    check(cuCtxGetCurrent(&context), "context");
    if (type == CU_GRAPH_NODE_TYPE_KERNEL) {
      CUDA_KERNEL_NODE_PARAMS p{};
      check(cuGraphKernelNodeGetParams(node, &p), "parameters");
      check(cuGraphAddKernelNode(&copy, g, &behind, 1, &p), "kernel");
      check(cuGraphKernelNodeCopyAttributes(copy, node), "attributes");
    } else if (type == CU_GRAPH_NODE_TYPE_MEMSET) {
      CUDA_MEMSET_NODE_PARAMS p{};
      check(cuGraphMemsetNodeGetParams(node, &p), "parameters");
      check(cuGraphAddMemsetNode(&copy, g, &behind, 1, &p, context), "memset");
    } else if (type == CU_GRAPH_NODE_TYPE_MEMCPY) {
      CUDA_MEMCPY3D p{};
      check(cuGraphMemcpyNodeGetParams(node, &p), "parameters");
      check(cuGraphAddMemcpyNode(&copy, g, &behind, 1, &p, context), "copy");
    } else {
      check(cuGraphAddEmptyNode(&copy, g, &behind, 1), "node");
    }
    return copy;
  }

  static void describe(CUgraphNode node, block_ends_row& row) {
    CUDA_KERNEL_NODE_PARAMS p{};
    check(cuGraphKernelNodeGetParams(node, &p), "parameters");
    CUfunction f = p.func;
    if (f == nullptr) check(cuKernelGetFunction(&f, p.kern), "function");
    const char* name = "?";
    cuFuncGetName(&name, f);
    std::snprintf(row.name, sizeof row.name, "%s", name);
    row.blocks = std::uint64_t{p.gridDimX} * p.gridDimY * p.gridDimZ;
    row.threads = p.blockDimX * p.blockDimY * p.blockDimZ;
    int per_sm = 0;
    cuOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, f, static_cast<int>(row.threads),
                                                p.sharedMemBytes);
    row.per_sm = static_cast<std::uint32_t>(per_sm);
  }

  void pass(step& s, bool beside, bool counts) {
    const bool waits = beside && s.beside != nullptr;
    check(cudaMemsetAsync(record_, 0, sizeof(record), stream_), "clear");
    check(cudaGraphLaunch(waits ? s.beside : s.alone, stream_), "launch");
    wait();
    if (s.row == nullptr || !counts || waits != beside) return;
    record r;
    check(cudaMemcpy(&r, record_, sizeof r, cudaMemcpyDefault), "record");
    if (r.gave_up != 0) throw std::runtime_error("blocks that never started");
    if (!waits) {
      s.took.push_back(static_cast<double>(r.after - r.held) / 1e3);
      return;
    }
    std::vector<std::uint64_t> starts(sms_);
    check(cudaMemcpy(starts.data(), starts_, sms_ * sizeof(std::uint64_t), cudaMemcpyDefault),
          "starts");
    std::sort(starts.begin(), starts.end());
    for (std::uint32_t k = 0; k < sms_; ++k)
      s.ends[k].push_back((static_cast<double>(starts[k]) - static_cast<double>(r.held)) / 1e3);
  }

  /// Ends the process if the GPU does not end in time.
  void wait() {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (cudaStreamQuery(stream_) == cudaErrorNotReady) {
      if (std::chrono::steady_clock::now() < until) continue;
      std::fprintf(stderr, "block_ends: a kernel has run for 10 s, expected milliseconds\n");
      std::_Exit(3);
    }
    check(cudaStreamSynchronize(stream_), "kernel");
  }

  std::uint32_t sms_;
  cudaStream_t stream_{};
  record* record_ = nullptr;
  std::uint64_t* starts_ = nullptr;
  std::vector<step> steps_;
  std::uint64_t measured_ = 0;
};

template <class F>
std::int64_t reported(F f) noexcept {
  try {
    return f();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "block_ends: %s\n", e.what());
    return -1;
  }
}

} // namespace

std::int64_t block_ends(void* graph, std::uint32_t repeats, block_ends_row* rows,
                        std::uint64_t most, std::uint32_t sms) {
  return reported([&] { return bench(sms).run(static_cast<CUgraph>(graph), repeats, rows, most); });
}

std::int64_t block_ends_known(std::uint32_t repeats, block_ends_row* rows, std::uint64_t most,
                              std::uint32_t sms) {
  return reported([&] {
    cudaGraph_t g{};
    check(cudaGraphCreate(&g, 0), "graph");
    for (const unsigned blocks : {sms, sms / 2, sms * 4})
      add(g, nullptr, known, blocks, all_threads, std::uint64_t{50'000}, std::uint64_t{10'000},
          static_cast<std::uint32_t*>(nullptr));
    const std::int64_t n = bench(sms).run(g, repeats, rows, most);
    cudaGraphDestroy(g);
    return n;
  });
}

// SPDX-License-Identifier: Apache-2.0
#include "head_of_line/kernels.hpp"
#include "head_of_line/way.hpp"

#include <gsched/cuda/error.hpp>

#include <algorithm>

namespace head_of_line {

using gsched::cuda::check;

namespace {

void add_driver(std::vector<way>& all) {
  for (const unsigned n : {0u, 32u}) {
    const std::string at = n == 0 ? ".default" : ".32";
    all.push_back({"launches" + at, submitter::launches, n});
    all.push_back({"graphs" + at, submitter::graph, n});
    all.push_back({"interleaved" + at, submitter::interleaved, n, 128});
    all.push_back({"interleaved_graphs" + at, submitter::interleaved_graphs, n, 128});
  }
  // Where the limits are: what other kinds of streams add to the queues.
  all.push_back({"graphs.128", submitter::graph, 128});
  for (const unsigned n : {0u, 32u})
    for (const unsigned p : {2u, 3u, 6u})
      all.push_back({(n == 0 ? "graphs.default.p" : "graphs.32.p") + std::to_string(p),
                     submitter::graph, n, 192, p});
  for (const unsigned n : {0u, 32u})
    for (const unsigned p : {2u, 4u, 8u})
      all.push_back({(n == 0 ? "graphs.default.g" : "graphs.32.g") + std::to_string(p),
                     submitter::graph, n, 128, 1, p});
  all.push_back({"launches.32.p6", submitter::launches, 32, 192, 6});
}

void add_gsched(std::vector<way>& all, unsigned connections, unsigned lanes, unsigned priorities) {
  const std::string at =
      std::string("gsched.") + (connections == 0 ? "default" : std::to_string(connections)) + ".l" +
      std::to_string(lanes) + (priorities > 1 ? ".p" + std::to_string(priorities) : "");
  all.push_back({at + ".job", submitter::gsched, connections, lanes, priorities, 0, 0});
  all.push_back({at + ".kernel", submitter::gsched, connections, lanes, priorities, 0, 1});
}

void add_spares(std::vector<way>& all, unsigned spares) {
  way w{"gsched.default.l8.s" + std::to_string(spares), submitter::gsched, 0, 8};
  w.spares = spares;
  for (const unsigned kernels : {0u, 1u}) {
    w.segment = kernels;
    all.push_back(w);
    all.back().name += kernels == 0 ? ".job" : ".kernel";
  }
}

} // namespace

std::vector<way> all_ways() {
  std::vector<way> all;
  add_driver(all);
  for (const unsigned lanes : {8u, 32u, 64u, 128u}) add_gsched(all, 0, lanes, 1);
  for (const unsigned spares : {24u, 120u}) add_spares(all, spares);
  add_gsched(all, 0, 48, 6);
  for (const unsigned lanes : {32u, 64u, 128u}) add_gsched(all, 32, lanes, 1);
  add_gsched(all, 32, 64, 2);
  add_gsched(all, 32, 96, 3);
  add_gsched(all, 32, 128, 6);
  return all;
}

std::optional<way> find_way(const std::string& name) {
  const std::vector<way> all = all_ways();
  const auto at = std::ranges::find(all, name, &way::name);
  return at == all.end() ? std::nullopt : std::optional(*at);
}

long long calibrate(const job_shape& job) {
  constexpr unsigned kernels = 8;
  cudaStream_t stream = nullptr;
  cudaEvent_t before = nullptr;
  cudaEvent_t after = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  check(cudaEventCreate(&before), "event");
  check(cudaEventCreate(&after), "event");
  const auto chain_us = [&](long long cycles) {
    hold_arguments a{cycles, nullptr, nullptr};
    void* arguments[] = {&a.cycles, &a.ended, &a.word};
    cudaKernelNodeParams how{};
    how.func = const_cast<void*>(hold_kernel());
    how.gridDim = dim3(1);
    how.blockDim = dim3(block_threads);
    how.kernelParams = arguments;
    cudaGraph_t graph = nullptr;
    check(cudaGraphCreate(&graph, 0), "graph");
    cudaGraphNode_t last = nullptr;
    for (unsigned i = 0; i < kernels; ++i) {
      cudaGraphNode_t node = nullptr;
      check(cudaGraphAddKernelNode(&node, graph, &last, i == 0 ? 0 : 1, &how), "graph kernel");
      last = node;
    }
    cudaGraphExec_t exec = nullptr;
    check(cudaGraphInstantiate(&exec, graph, 0), "graph");
    double best = 1e9;
    for (int run = 0; run < 5; ++run) {
      float ms = 0;
      check(cudaEventRecord(before, stream), "event");
      check(cudaGraphLaunch(exec, stream), "graph launch");
      check(cudaEventRecord(after, stream), "event");
      check(cudaStreamSynchronize(stream), "graph");
      check(cudaEventElapsedTime(&ms, before, after), "event");
      best = std::min(best, 1e3 * static_cast<double>(ms) / kernels);
    }
    check(cudaGraphExecDestroy(exec), "graph");
    check(cudaGraphDestroy(graph), "graph");
    return best;
  };
  long long cycles = static_cast<long long>(1500 * job.kernel_us);
  for (int round = 0; round < 4; ++round) // the first rounds also let the clocks rise
    cycles = std::max(1LL, static_cast<long long>(static_cast<double>(cycles) * job.kernel_us /
                                                  chain_us(cycles)));
  check(cudaEventDestroy(before), "event");
  check(cudaEventDestroy(after), "event");
  check(cudaStreamDestroy(stream), "stream");
  return cycles;
}

} // namespace head_of_line

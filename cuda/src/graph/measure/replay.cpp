// SPDX-License-Identifier: Apache-2.0
#include "graph/measure/replay.hpp"

#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace gsched::cuda {

exec_owner instantiate(CUgraph graph) {
  CUgraphExec exec = nullptr; // by the driver, which knows the kernels of every copy of the runtime
  check(driver().cuGraphInstantiateWithFlags(&exec, graph, 0), "graph to be measured");
  return exec_owner(exec);
}

double median_replay_ns(cudaGraphExec_t graph, cudaStream_t stream, int runs) {
  constexpr const char* what = "measured graph";
  std::vector<event_owner> marks;
  for (int i = 0; i <= runs; ++i) {
    cudaEvent_t made = nullptr;
    check(cudaEventCreate(&made), what);
    marks.emplace_back(made);
  }
  // The first launch keeps the GPU busy while the host submits the measured ones.
  check(driver().cuGraphLaunch(graph, stream), what);
  for (const event_owner& m : marks) {
    check(driver().cuGraphLaunch(graph, stream), what);
    check(cudaEventRecord(m.get(), stream), what);
  }
  check(cudaStreamSynchronize(stream), what);
  std::vector<double> ns;
  for (std::size_t i = 1; i < marks.size(); ++i) {
    float ms = 0;
    check(cudaEventElapsedTime(&ms, marks[i - 1].get(), marks[i].get()), what);
    ns.push_back(static_cast<double>(ms) * 1e6);
  }
  std::sort(ns.begin(), ns.end());
  return ns[ns.size() / 2];
}

} // namespace gsched::cuda

// SPDX-License-Identifier: Apache-2.0
#include <gsched/cuda_tools/held_up.hpp>

#include "graph/measure/replay.hpp"
#include "probe/beside_passes.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/gpu.hpp>
#include <gsched/cuda/program.hpp>
#include <gsched/cuda_tools/beside_probe.hpp>
#include <gsched/cuda_tools/replay_times.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace gsched::cuda {

namespace {

/// Sets of memory, and copies on the GPU, are kernels in it.
program as_each_runs(CUgraph graph) {
  program_options plain;
  plain.name = "graph beside a probe";
  plain.measure = false;
  return program(graph, plain);
}

bool is_kernel(const program& p, std::size_t i) noexcept {
  return p.host().operations()[i].kind == operation_kind::kernel;
}

} // namespace

std::size_t kernels_beside(CUgraph graph) {
  const program p = as_each_runs(graph);
  std::size_t kernels = 0;
  for (std::size_t i = 0; i < p.host().size(); ++i)
    if (is_kernel(p, i)) ++kernels;
  return kernels;
}

std::vector<beside_operation> each_beside(CUgraph graph, const probe_options& how, int gpu,
                                          double limit_us, std::size_t passes,
                                          const std::function<void()>& progressed) {
  const struct gpu on = find_gpu(gpu);
  const program p = as_each_runs(graph);
  probe beside(how, on.sms);
  const stream_owner stream = make_stream("stream of the graph");
  const stream_owner its = make_stream("stream of the probe");
  std::vector<exec_owner> graphs;
  for (std::size_t i = 0; i < p.host().size(); ++i) {
    graphs.push_back(instantiate(graph_owner(p.make_range(i, i + 1, {})).get()));
    check(cudaGraphLaunch(graphs[i].get(), stream.get()), "operation"); // loads its module
  }
  check(cudaStreamSynchronize(stream.get()), "operation");

  const event_owner begin = make_event("operation");
  const event_owner end = make_event("operation");
  const auto time_of = [&](std::size_t i) {
    check(cudaEventRecord(begin.get(), stream.get()), "operation");
    check(cudaGraphLaunch(graphs[i].get(), stream.get()), "operation");
    check(cudaEventRecord(end.get(), stream.get()), "operation");
    check(cudaStreamSynchronize(stream.get()), "operation");
    if (progressed) progressed();
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin.get(), end.get()), "operation");
    return ms * 1e3;
  };
  const auto time_beside = [&](std::size_t i, double limit) {
    beside.start(its.get(), limit);
    if (!beside.wait_running(1e6))
      throw error(errc::device_failed, beside.name() + ": no block started, expected one");
    std::this_thread::sleep_for(std::chrono::microseconds{100}); // all blocks run
    const double us = time_of(i);
    beside.stop();
    check_sms(how, on.sms, beside.last());
    return us;
  };
  std::vector<beside_times> times = beside_passes(
      graphs.size(), passes, limit_us, [&](std::size_t i) { return is_kernel(p, i); }, time_of,
      time_beside);
  std::vector<beside_operation> all;
  for (std::size_t i = 0; i < times.size(); ++i)
    if (!times[i].beside.empty())
      all.push_back({i, p.host().operations()[i].launch, summarize(std::move(times[i].alone)),
                     summarize(std::move(times[i].beside)), times[i].held_up});
  return all;
}

} // namespace gsched::cuda

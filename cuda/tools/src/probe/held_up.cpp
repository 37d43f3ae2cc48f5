// SPDX-License-Identifier: Apache-2.0
#include <gsched/cuda_tools/held_up.hpp>

#include "graph/measure/replay.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/gpu.hpp>
#include <gsched/cuda/program.hpp>
#include <gsched/cuda_tools/beside_probe.hpp>
#include <gsched/cuda_tools/replay_times.hpp>
#include <gsched/cuda_tools/waited_for_probe.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace gsched::cuda {

std::vector<beside_operation> each_beside(CUgraph graph, const probe_options& how, int gpu,
                                          double limit_us, std::size_t passes,
                                          const std::function<void()>& progressed) {
  const struct gpu on = find_gpu(gpu);
  program_options plain;
  plain.name = "graph beside a probe";
  plain.measure = false;
  const program p(graph, plain);
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
  // Each time in the order of the capture: a kernel that runs twice may wait for what the operation
  // before it resets. `measure` is called with each kernel; it returns whether it ran it.
  const auto run_all = [&](auto measure) {
    for (std::size_t i = 0; i < graphs.size(); ++i)
      if (p.host().operations()[i].kind != operation_kind::kernel || !measure(i))
        static_cast<void>(time_of(i));
  };
  std::vector<std::vector<double>> alone(graphs.size()), together(graphs.size());
  const auto median_of = [](const std::vector<double>& times) { return summarize(times).median; };
  std::vector<bool> held(graphs.size());
  const auto is_open = [&](std::size_t i) {
    return !held[i] && !together[i].empty() &&
           median_of(together[i]) > median_of(alone[i]) + limit_us / 2;
  };
  for (std::size_t pass = 0; pass < passes; ++pass) {
    for (std::size_t i = 0; i < graphs.size(); ++i) alone[i].push_back(time_of(i));
    run_all([&](std::size_t i) { // one that seems to wait would take the limit each time
      if (is_open(i)) return false;
      together[i].push_back(time_beside(i, limit_us));
      return true;
    });
  }
  const auto any_open = [&] {
    for (std::size_t i = 0; i < graphs.size(); ++i)
      if (is_open(i)) return true;
    return false;
  };
  constexpr int looks = 3; // a host that is late makes a wait longer or shorter
  for (int look = 0; look < looks && any_open(); ++look) {
    if (look > 0)
      run_all([&](std::size_t i) {
        if (!is_open(i)) return false;
        together[i].assign(1, time_beside(i, limit_us));
        return true;
      });
    run_all([&](std::size_t i) {
      if (!is_open(i)) return false;
      held[i] = waited_for_probe(median_of(together[i]), time_beside(i, 2 * limit_us), limit_us);
      return true;
    });
  }
  for (std::size_t pass = 1; pass < passes; ++pass) // of those that are only slowed
    run_all([&](std::size_t i) {
      if (held[i] || together[i].size() > pass) return false;
      together[i].push_back(time_beside(i, limit_us));
      return true;
    });
  std::vector<beside_operation> all;
  for (std::size_t i = 0; i < graphs.size(); ++i)
    if (!together[i].empty())
      all.push_back({i, p.host().operations()[i].launch, summarize(std::move(alone[i])),
                     summarize(std::move(together[i])), held[i]});
  return all;
}

} // namespace gsched::cuda

// SPDX-License-Identifier: Apache-2.0
#include "graph/measure/measure.hpp"

#include "graph/flatten/graph_read.hpp"
#include "graph/measure/measure_clock.hpp"
#include "hung_streams.hpp"
#include "owners.hpp"

#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>

#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>

namespace gsched::cuda {

namespace {

constexpr std::size_t clock_row = 64;    ///< readings in a chain, to measure the cost of one
constexpr std::uint64_t coarse_ns = 250; ///< a clock with this step or more needs more runs
constexpr int runs_of_coarse = 8;        ///< factor of runs for such a clock
constexpr auto longest = std::chrono::seconds(20); ///< limit of one run

/// The GPU resources of a measurement. They are abandoned if the GPU hangs.
class measurement {
public:
  measurement(std::size_t stamps, const std::string& where)
      : where_(where), zeros_(stamps), stream_(make_stream(what("stream"))),
        aside_(make_stream(what("stream"))),
        memory_(make_device_memory<std::uint64_t>(stamps, what("memory"))) {}
  ~measurement() {
    if (hung_) { // freeing anything would wait for the GPU
      int gpu = 0;
      if (cudaGetDevice(&gpu) == cudaSuccess) abandon_stream(gpu, stream());
      static_cast<void>(stream_.release());
      static_cast<void>(aside_.release());
      static_cast<void>(memory_.release());
      return;
    }
    for (const CUgraphExec e : made_) driver().cuGraphExecDestroy(e);
  }
  measurement(const measurement&) = delete;
  measurement& operator=(const measurement&) = delete;

  [[nodiscard]] CUstream stream() const noexcept { return stream_.get(); }
  [[nodiscard]] std::uint64_t* slot(std::size_t i) const noexcept { return memory_.get() + i; }
  [[nodiscard]] std::string what(const char* part) const {
    return where_ + "measuring it: " + part;
  }

  [[nodiscard]] CUgraphExec ready(CUgraph graph) {
    CUgraphExec made = nullptr;
    check(driver().cuGraphInstantiateWithFlags(&made, graph,
                                               CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY),
          what("instantiation").c_str());
    made_.push_back(made);
    return made;
  }

  void launch(CUgraphExec e) const {
    check(driver().cuGraphLaunch(e, stream()), what("launch").c_str());
  }

  /// Clears all time stamps. Uses a copy: a memset outside of a graph may be a kernel, and kernels
  /// launched on a stream of their own can slow every later graph of the process.
  void clear() const {
    check(cudaMemcpyAsync(memory_.get(), zeros_.data(), zeros_.size() * sizeof(std::uint64_t),
                          cudaMemcpyHostToDevice, stream()),
          what("memory").c_str());
  }

  /// Waits with a time limit. `stamped`: number of slots that the run stamps in order.
  void wait(std::size_t stamped) {
    const auto end = std::chrono::steady_clock::now() + longest;
    cudaError_t e = cudaErrorNotReady;
    for (int i = 0; (e = cudaStreamQuery(stream())) == cudaErrorNotReady; ++i) {
      if (std::chrono::steady_clock::now() > end) give_up(stamped);
      if (i > 1000) std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    check(e, what("run").c_str());
  }

  [[nodiscard]] std::vector<std::uint64_t> read(std::size_t n) const {
    std::vector<std::uint64_t> out(n);
    check(cudaMemcpyAsync(out.data(), memory_.get(), n * sizeof(std::uint64_t),
                          cudaMemcpyDeviceToHost, stream()),
          what("reading").c_str());
    check(cudaStreamSynchronize(stream()), what("reading").c_str());
    return out;
  }

private:
  [[noreturn]] void give_up(std::size_t stamped) {
    hung_ = true;
    std::string subject = "the graph";
    const cudaStream_t aside = aside_.get();
    std::vector<std::uint64_t> seen(stamped);
    if (stamped > 0 &&
        cudaMemcpyAsync(seen.data(), memory_.get(), stamped * sizeof(std::uint64_t),
                        cudaMemcpyDeviceToHost, aside) == cudaSuccess &&
        cudaStreamSynchronize(aside) == cudaSuccess) {
      const auto reached = std::find(seen.begin(), seen.end(), 0) - seen.begin();
      subject = "operation " + std::to_string(std::max<std::ptrdiff_t>(reached - 1, 0));
    }
    throw error(errc::device_failed, where_ + subject + " has not ended after " +
                                         std::to_string(longest.count()) +
                                         " s, expected each to end");
  }

  std::string where_;
  std::vector<std::uint64_t> zeros_;
  stream_owner stream_;
  stream_owner aside_; ///< reads memory when the graph hangs, when no stream can be made
  device_memory<std::uint64_t> memory_;
  std::vector<CUgraphExec> made_{};
  bool hung_ = false;
};

CUgraphNode add_kernel(CUgraph graph, CUgraphNode after, CUfunction f, std::uint64_t* to) {
  void* arguments[] = {&to};
  CUDA_KERNEL_NODE_PARAMS k{};
  k.func = f;
  k.gridDimX = k.gridDimY = k.gridDimZ = 1;
  k.blockDimX = k.blockDimY = k.blockDimZ = 1;
  k.kernelParams = arguments;
  CUgraphNode node = nullptr;
  check(driver().cuGraphAddKernelNode(&node, graph, &after, after != nullptr ? 1 : 0, &k),
        "clock kernel");
  return node;
}

/// A graph of the nodes in a chain, in program order, with a clock reading before each operation
/// and one at the end.
graph_owner row_of(const flat_graph& flat, const add_node& add, const measurement& on) {
  graph_owner row = empty_graph();
  CUgraphNode last = nullptr;
  for (std::uint32_t i = 0; i < flat.nodes.size(); ++i) {
    const std::uint32_t operation = flat.nodes[i].operation;
    if (flat.node_of[operation] == i)
      last = add_kernel(row.get(), last, stamp_kernel(), on.slot(operation));
    const CUgraphNode node = add(row.get(), i);
    if (last != nullptr)
      check(driver().cuGraphAddDependencies(row.get(), &last, &node, nullptr, 1), "graph row");
    last = node;
  }
  add_kernel(row.get(), last, stamp_kernel(), on.slot(flat.operations()));
  return row;
}

std::uint64_t clock_step(measurement& on) {
  const graph_owner g = empty_graph();
  add_kernel(g.get(), nullptr, clock_step_kernel(), on.slot(0));
  on.launch(on.ready(g.get()));
  on.wait(0);
  return on.read(1).front();
}

/// The cost of one clock reading in a chain of readings.
duration stamp_cost(measurement& on, int runs, bool mean) {
  const graph_owner g = empty_graph();
  CUgraphNode last = nullptr;
  for (std::size_t i = 0; i < clock_row; ++i)
    last = add_kernel(g.get(), last, stamp_kernel(), on.slot(i));
  const CUgraphExec e = on.ready(g.get());
  std::vector<double> steps;
  for (int r = 0; r <= runs; ++r) {
    on.launch(e);
    on.wait(0);
    const std::vector<std::uint64_t> at = on.read(clock_row);
    for (std::size_t i = 0; r > 0 && i + 1 < at.size(); ++i)
      steps.push_back(static_cast<double>(at[i + 1] - at[i]));
  }
  std::sort(steps.begin(), steps.end());
  double sum = 0;
  for (const double s : steps) sum += s;
  return duration{static_cast<duration::rep>(mean ? sum / static_cast<double>(steps.size())
                                                  : steps[steps.size() / 2])};
}

/// The time from the end of one replay to the end of the next, with all replays submitted at once.
/// For a graph that runs shorter than its launch, this is the host's time of a launch.
duration replay_time(measurement& on, CUgraph graph, int runs) {
  const CUgraphExec e = on.ready(graph);
  on.launch(e);
  on.wait(0);
  std::vector<event_owner> marks;
  for (int i = 0; i <= runs; ++i) marks.push_back(make_event(on.what("event")));
  on.launch(e);
  for (const event_owner& m : marks) {
    check(cudaEventRecord(m.get(), on.stream()), on.what("event").c_str());
    if (&m != &marks.back()) on.launch(e);
  }
  on.wait(0);
  std::vector<float> ms(marks.size() - 1);
  for (std::size_t i = 0; i < ms.size(); ++i)
    check(cudaEventElapsedTime(&ms[i], marks[i].get(), marks[i + 1].get()),
          on.what("event").c_str());
  std::sort(ms.begin(), ms.end());
  return from_us(static_cast<double>(ms[ms.size() / 2]) * 1e3);
}

} // namespace

measured_graph measure_graph(CUgraph whole, const flat_graph& flat, const add_node& add, int runs,
                             const std::string& where) {
  const std::size_t operations = flat.operations();
  measurement on(std::max(operations + 1, clock_row), where);
  const bool coarse = clock_step(on) > coarse_ns;
  if (coarse) runs *= runs_of_coarse;
  const duration step = stamp_cost(on, runs, coarse);

  const CUgraphExec e = on.ready(row_of(flat, add, on).get());
  std::vector<std::vector<std::uint64_t>> stamps;
  for (int r = 0; r <= runs; ++r) {
    on.clear();
    on.launch(e);
    on.wait(operations + 1);
    if (r > 0) stamps.push_back(on.read(operations + 1)); // the first run is a warm-up
  }
  measured_graph m;
  m.operations = times_of(stamps, step, coarse);
  m.whole = replay_time(on, whole, runs);
  fit(m.operations, m.whole);
  return m;
}

namespace {

/// The mean or the median. Reorders `v`.
double middle(std::vector<double>& v, bool mean) {
  if (mean) return std::accumulate(v.begin(), v.end(), 0.0) / static_cast<double>(v.size());
  const auto half = v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2);
  std::nth_element(v.begin(), half, v.end());
  return *half;
}

} // namespace

std::vector<duration> times_of(std::span<const std::vector<std::uint64_t>> stamps, duration step,
                               bool mean) {
  std::vector<duration> times;
  std::vector<double> runs(stamps.size());
  // Two readings are separated by the operation and one reading. The operation's time is its own
  // work plus the cost of any kernel in a chain.
  const auto without = static_cast<double>(2 * step.count() - least_operation.count());
  for (std::size_t i = 0; i + 1 < stamps.front().size(); ++i) {
    for (std::size_t r = 0; r < runs.size(); ++r)
      runs[r] = static_cast<double>(stamps[r][i + 1]) - static_cast<double>(stamps[r][i]);
    const auto ns = static_cast<duration::rep>(middle(runs, mean) - without);
    times.push_back(std::max(duration{ns}, least_operation));
  }
  return times;
}

void fit(std::vector<duration>& times, duration whole) noexcept {
  const duration sum = std::accumulate(times.begin(), times.end(), duration{});
  if (whole <= duration::zero() || sum <= duration::zero()) return;
  const duration most = sum + most_gap * static_cast<duration::rep>(times.size());
  const double share =
      static_cast<double>(std::min(whole, most).count()) / static_cast<double>(sum.count());
  for (duration& t : times)
    t = duration{std::max(duration::rep{1},
                          static_cast<duration::rep>(static_cast<double>(t.count()) * share))};
}

} // namespace gsched::cuda

// SPDX-License-Identifier: Apache-2.0
#include "measure.hpp"

#include "graph_walk.hpp"
#include "measure_clock.hpp"

#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>

#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace gsched::cuda {

namespace {

constexpr std::size_t clock_row = 64;    ///< readings in a row that tell what one costs
constexpr std::uint64_t coarse_ns = 250; ///< a clock that steps so far needs more runs ...
constexpr int runs_of_coarse = 8;        ///< ... so many times as many
constexpr auto longest = std::chrono::seconds(20); ///< that one run may take

/// What a measurement holds on the GPU. Left behind where the GPU hangs.
class bench {
public:
  bench(std::size_t stamps, const std::string& where) : where_(where), zeros_(stamps) {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), what("stream").c_str());
    void* memory = nullptr;
    check(cudaMalloc(&memory, stamps * sizeof(std::uint64_t)), what("memory").c_str());
    memory_ = static_cast<std::uint64_t*>(memory);
  }
  ~bench() {
    if (hung_) return;
    for (const CUgraphExec e : made_) driver().cuGraphExecDestroy(e);
    cudaFree(memory_);
    cudaStreamDestroy(stream_);
  }
  bench(const bench&) = delete;
  bench& operator=(const bench&) = delete;

  [[nodiscard]] CUstream stream() const noexcept { return stream_; }
  [[nodiscard]] std::uint64_t* slot(std::size_t i) const noexcept { return memory_ + i; }
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
    check(driver().cuGraphLaunch(e, stream_), what("launch").c_str());
  }

  /// No slot is stamped. A copy, as a memset outside of a graph may be a kernel, and kernels that
  /// are launched on a stream of their own can slow every later graph of the process.
  void clear() const {
    check(cudaMemcpyAsync(memory_, zeros_.data(), zeros_.size() * sizeof(std::uint64_t),
                          cudaMemcpyHostToDevice, stream_),
          what("memory").c_str());
  }

  /// Waits, but not for ever; `stamped` says that what runs stamps the first slots in order.
  void wait(std::size_t stamped) {
    const auto end = std::chrono::steady_clock::now() + longest;
    cudaError_t e = cudaErrorNotReady;
    for (int i = 0; (e = cudaStreamQuery(stream_)) == cudaErrorNotReady; ++i) {
      if (std::chrono::steady_clock::now() > end) give_up(stamped);
      if (i > 1000) std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    check(e, what("run").c_str());
  }

  [[nodiscard]] std::vector<std::uint64_t> read(std::size_t n) const {
    std::vector<std::uint64_t> out(n);
    check(cudaMemcpyAsync(out.data(), memory_, n * sizeof(std::uint64_t), cudaMemcpyDeviceToHost,
                          stream_),
          what("reading").c_str());
    check(cudaStreamSynchronize(stream_), what("reading").c_str());
    return out;
  }

private:
  [[noreturn]] void give_up(std::size_t stamped) {
    hung_ = true;
    std::string who = "the graph";
    cudaStream_t aside = nullptr;
    std::vector<std::uint64_t> seen(stamped);
    if (stamped > 0 && cudaStreamCreateWithFlags(&aside, cudaStreamNonBlocking) == cudaSuccess &&
        cudaMemcpyAsync(seen.data(), memory_, stamped * sizeof(std::uint64_t),
                        cudaMemcpyDeviceToHost, aside) == cudaSuccess &&
        cudaStreamSynchronize(aside) == cudaSuccess) {
      const auto reached = std::find(seen.begin(), seen.end(), 0) - seen.begin();
      who = "operation " + std::to_string(std::max<std::ptrdiff_t>(reached - 1, 0));
    }
    throw error(errc::device_failed, where_ + who + " has not ended after " +
                                         std::to_string(longest.count()) +
                                         " s, expected each to end");
  }

  std::string where_;
  std::vector<std::uint64_t> zeros_;
  cudaStream_t stream_ = nullptr;
  std::uint64_t* memory_ = nullptr;
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

void remove_edges(CUgraph graph) {
  std::size_t n = 0;
  check(driver().cuGraphGetEdges(graph, nullptr, nullptr, nullptr, &n), "graph edges");
  if (n == 0) return;
  std::vector<CUgraphNode> from(n), to(n);
  std::vector<CUgraphEdgeData> data(n);
  check(driver().cuGraphGetEdges(graph, from.data(), to.data(), data.data(), &n), "graph edges");
  check(driver().cuGraphRemoveDependencies(graph, from.data(), to.data(), data.data(), n),
        "graph edges");
}

/// Puts a clone's nodes into a row, in the program's order, with a reading of the clock before each
/// operation. Gives the last of the row.
CUgraphNode put_in_row(const graph_level& level, CUgraph clone, const bench& on, CUfunction stamp) {
  const std::vector<CUgraphNode> found = find_in_clone(level, clone);
  remove_edges(clone);
  CUgraphNode last = nullptr;
  for (const std::uint32_t i : level.order) {
    const level_node& node = level.nodes[i];
    if (node.child) static_cast<void>(put_in_row(*node.child, child_of(found[i]), on, stamp));
    if (node.is_operation()) last = add_kernel(clone, last, stamp, on.slot(node.first));
    if (last != nullptr)
      check(driver().cuGraphAddDependencies(clone, &last, &found[i], nullptr, 1), "graph row");
    last = found[i];
  }
  return last;
}

graph_owner empty_graph() {
  CUgraph g = nullptr;
  check(driver().cuGraphCreate(&g, 0), "graph");
  return graph_owner(g);
}

std::uint64_t clock_step(bench& on) {
  const graph_owner g = empty_graph();
  add_kernel(g.get(), nullptr, clock_step_kernel(), on.slot(0));
  on.launch(on.ready(g.get()));
  on.wait(0);
  return on.read(1).front();
}

/// What one reading of the clock takes in a row of them, each after the one before.
duration stamp_cost(bench& on, int runs, bool mean) {
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

/// Of the graph as it is: from the end of one replay to the end of the next, all handed over at
/// once. So a graph that is shorter than its launch takes the host's time for that.
duration replay_time(bench& on, CUgraph graph, int runs) {
  const CUgraphExec e = on.ready(graph);
  on.launch(e);
  on.wait(0);
  std::vector<cudaEvent_t> marks(static_cast<std::size_t>(runs) + 1);
  for (cudaEvent_t& m : marks) check(cudaEventCreate(&m), on.what("event").c_str());
  on.launch(e);
  for (cudaEvent_t& m : marks) {
    check(cudaEventRecord(m, on.stream()), on.what("event").c_str());
    if (&m != &marks.back()) on.launch(e);
  }
  on.wait(0);
  std::vector<float> ms(marks.size() - 1);
  for (std::size_t i = 0; i < ms.size(); ++i)
    check(cudaEventElapsedTime(&ms[i], marks[i], marks[i + 1]), on.what("event").c_str());
  for (const cudaEvent_t m : marks) cudaEventDestroy(m);
  std::sort(ms.begin(), ms.end());
  return from_us(static_cast<double>(ms[ms.size() / 2]) * 1e3);
}

} // namespace

measured_graph measure_graph(const graph_level& top, std::size_t operations, int runs,
                             const std::string& where) {
  bench on(std::max(operations + 1, clock_row), where);
  const bool coarse = clock_step(on) > coarse_ns;
  if (coarse) runs *= runs_of_coarse;
  const duration step = stamp_cost(on, runs, coarse);

  const graph_owner row = clone_of(top.graph, on.what(""));
  const CUgraphNode last = put_in_row(top, row.get(), on, stamp_kernel());
  add_kernel(row.get(), last, stamp_kernel(), on.slot(operations));
  const CUgraphExec e = on.ready(row.get());
  std::vector<std::vector<std::uint64_t>> stamps;
  for (int r = 0; r <= runs; ++r) {
    on.clear();
    on.launch(e);
    on.wait(operations + 1);
    if (r > 0) stamps.push_back(on.read(operations + 1)); // the first run warms up
  }
  measured_graph m;
  m.operations = times_of(stamps, step, coarse);
  m.whole = replay_time(on, clone_of(top.graph, on.what("")).get(), runs);
  fit(m.operations, m.whole);
  return m;
}

} // namespace gsched::cuda

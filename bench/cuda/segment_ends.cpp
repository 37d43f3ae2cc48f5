// SPDX-License-Identifier: Apache-2.0
// The GPU time of cutting chains of kernels into graphs on one stream, by the mechanism that
// reports the end of each to the host. The chains as one graph are the reference; "nothing" is the
// gap of CUDA itself between two graphs, and the time that concurrent chains lose because they wait
// for one another there. All ways are interleaved.

#include "experiment.hpp"
#include "segment_ends/kernels.hpp"

#include <gsched/cuda/error.hpp>
#include <gsched/cuda/gpu.hpp>

#include <CLI/CLI.hpp>
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

using gsched::cuda::check;
using json = nlohmann::ordered_json;

enum class end_way { whole, nothing, kernel, early_kernel, event_node, event_record };
struct way {
  end_way what;
  const char* name;
};
constexpr std::array ways{
    way{end_way::whole, "one graph"},
    way{end_way::nothing, "nothing"},
    way{end_way::kernel, "a kernel that stores a word"},
    way{end_way::early_kernel, "the same behind a programmatic edge"},
    way{end_way::event_node, "a node that records an event"},
    way{end_way::event_record, "an event recorded behind each graph"},
};

struct options {
  unsigned kernels = 10, segments = 20, branches = 1, blocks = 132, runs = 60;
  double kernel_us = 10;
  std::string json;
};

struct freed {
  void operator()(void* p) const noexcept { cudaFreeHost(p); }
  void operator()(cudaGraph_t g) const noexcept { cudaGraphDestroy(g); }
  void operator()(cudaGraphExec_t g) const noexcept { cudaGraphExecDestroy(g); }
  void operator()(cudaEvent_t e) const noexcept { cudaEventDestroy(e); }
  void operator()(cudaStream_t s) const noexcept { cudaStreamDestroy(s); }
};
template <class Handle>
using owned = std::unique_ptr<std::remove_pointer_t<Handle>, freed>;

owned<cudaEvent_t> make_event(unsigned flags) {
  cudaEvent_t e = nullptr;
  check(cudaEventCreateWithFlags(&e, flags), "event");
  return owned<cudaEvent_t>(e);
}

class comparison {
public:
  explicit comparison(const options& o) : o_(o), dog_("gsched.gpu.segment_ends") {
    dog_.step("set-up", 60);
    int clock_khz = 0;
    check(cudaDeviceGetAttribute(&clock_khz, cudaDevAttrClockRate, 0), "clock");
    cycles_ = static_cast<std::uint64_t>(o.kernel_us * clock_khz / 1e3);
    cudaStream_t s = nullptr;
    check(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), "stream");
    stream_.reset(s);
    void* p = nullptr;
    check(cudaHostAlloc(&p, o.segments * line * sizeof(std::uint64_t), cudaHostAllocMapped),
          "words");
    words_.reset(static_cast<std::uint64_t*>(p));
    for (unsigned i = 0; i < o.segments; ++i) ends_.push_back(make_event(cudaEventDisableTiming));
    from_ = make_event(cudaEventDefault);
    to_ = make_event(cudaEventDefault);
    for (const way& w : ways) {
      std::vector<owned<cudaGraphExec_t>>& made = graphs_.emplace_back();
      if (w.what == end_way::whole)
        made.push_back(graph(o.kernels * o.segments, w.what, 0));
      else
        for (unsigned i = 0; i < o.segments; ++i) made.push_back(graph(o.kernels, w.what, i));
    }
  }

  [[nodiscard]] json run() {
    std::vector<std::vector<double>> took(ways.size());
    for (unsigned r = 0; r < o_.runs + 5; ++r)
      for (std::size_t w = 0; w < ways.size(); ++w) {
        dog_.step("a run", 30);
        const double us = once(w);
        if (r >= 5) took[w].push_back(us);
      }
    dog_.rest();
    const double whole = experiment::median(took[0]);
    fmt::print("{} segments of {} x {} kernels of {} us, {} blocks: {:.1f} us as one graph\n"
               "{:38} {:>11} {:>6} {:>6} {:>10}\n",
               o_.segments, o_.branches, o_.kernels, o_.kernel_us, o_.blocks / o_.branches, whole,
               "end told by", "us a cut 50", "10", "90", "over whole");
    json all = json::array();
    for (std::size_t w = 1; w < ways.size(); ++w) {
      const auto cut = [&](double q) {
        return (experiment::quantile(took[w], q) - whole) / (o_.segments - 1);
      };
      const double ratio = experiment::median(took[w]) / whole;
      fmt::print("{:38} {:11.2f} {:6.2f} {:6.2f} {:10.4f}\n", ways[w].name, cut(0.5), cut(0.1),
                 cut(0.9), ratio);
      all.push_back({{"end", ways[w].name},
                     {"cut_us", {{"p50", cut(0.5)}, {"p10", cut(0.1)}, {"p90", cut(0.9)}}},
                     {"over_whole", ratio}});
    }
    return {{"whole_us", whole}, {"ways", std::move(all)}};
  }

private:
  static constexpr std::size_t line = 16; ///< words apart

  [[nodiscard]] owned<cudaGraphExec_t> graph(unsigned kernels, end_way end, unsigned segment) {
    const segment_ends::kernels k = segment_ends::all_kernels();
    cudaGraph_t made = nullptr;
    check(cudaGraphCreate(&made, 0), "graph");
    const owned<cudaGraph_t> g(made);
    // Behind the last nodes of all branches, or of one.
    using nodes = std::vector<cudaGraphNode_t>;
    const auto add = [&](const void* f, unsigned blocks, unsigned threads, void* argument,
                         const nodes& behind) {
      void* arguments[] = {argument};
      cudaKernelNodeParams p{};
      p.func = const_cast<void*>(f);
      p.gridDim = dim3(blocks);
      p.blockDim = dim3(threads);
      p.kernelParams = arguments;
      cudaGraphNode_t node = nullptr;
      const bool early = f == k.wait_and_mark;
      check(cudaGraphAddKernelNode(&node, g.get(), behind.data(), early ? 0 : behind.size(), &p),
            "kernel");
      for (const cudaGraphNode_t before : early ? behind : nodes{}) {
        cudaGraphEdgeData e{};
        e.from_port = cudaGraphKernelNodePortProgrammatic;
        e.type = cudaGraphDependencyTypeProgrammatic;
        check(cudaGraphAddDependencies(g.get(), &before, &node, &e, 1), "edge");
      }
      return node;
    };
    nodes last;
    for (unsigned branch = 0; branch < o_.branches; ++branch) {
      nodes before;
      for (unsigned i = 0; i < kernels; ++i)
        before = {add(k.spin, o_.blocks / o_.branches, 256, &cycles_, before)};
      last.push_back(before.front());
    }
    std::uint64_t* word = words_.get() + segment * line;
    if (end == end_way::kernel) static_cast<void>(add(k.mark, 1, 1, &word, last));
    if (end == end_way::early_kernel) static_cast<void>(add(k.wait_and_mark, 1, 1, &word, last));
    cudaGraphNode_t node = nullptr;
    if (end == end_way::event_node)
      check(cudaGraphAddEventRecordNode(&node, g.get(), last.data(), last.size(),
                                        ends_[segment].get()),
            "event");
    cudaGraphExec_t exec = nullptr;
    check(cudaGraphInstantiate(&exec, g.get(), 0), "instantiation");
    check(cudaGraphUpload(exec, stream_.get()), "upload");
    return owned<cudaGraphExec_t>(exec);
  }

  [[nodiscard]] double once(std::size_t w) {
    // The GPU is busy until the first graphs are queued.
    check(cudaGraphLaunch(graphs_[1][0].get(), stream_.get()), "launch");
    check(cudaEventRecord(from_.get(), stream_.get()), "event");
    for (std::size_t i = 0; i < graphs_[w].size(); ++i) {
      check(cudaGraphLaunch(graphs_[w][i].get(), stream_.get()), "launch");
      if (ways[w].what == end_way::event_record)
        check(cudaEventRecord(ends_[i].get(), stream_.get()), "event");
    }
    check(cudaEventRecord(to_.get(), stream_.get()), "event");
    check(cudaStreamSynchronize(stream_.get()), "run");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, from_.get(), to_.get()), "time");
    return 1e3 * static_cast<double>(ms);
  }

  options o_;
  experiment::watchdog dog_;
  std::uint64_t cycles_ = 0;
  owned<cudaStream_t> stream_;
  std::unique_ptr<std::uint64_t, freed> words_;
  std::vector<owned<cudaEvent_t>> ends_;
  owned<cudaEvent_t> from_, to_;
  std::vector<std::vector<owned<cudaGraphExec_t>>> graphs_;
};

} // namespace

int main(int argc, char** argv) {
  options o;
  CLI::App app(
      "What a cut between graphs costs the GPU, by what tells the host that one has ended.");
  const auto add = [&](const char* name, auto& value, auto least, auto most, const char* about) {
    app.add_option(name, value, about)->check(CLI::Range(least, most))->capture_default_str();
  };
  add("--kernels", o.kernels, 1u, 1000u, "of a branch of a segment");
  add("--segments", o.segments, 2u, 1000u, "of a chain");
  add("--branches", o.branches, 1u, 16u, "side by side, which meet at each cut");
  add("--blocks", o.blocks, 16u, 100000u, "of 256 threads, of the kernels that run side by side");
  add("--kernel-us", o.kernel_us, 0.1, 1e5, "how long a block runs, at the highest clock");
  add("--runs", o.runs, 1u, 100000u, "of each way");
  app.add_option("--json", o.json, "write the figures to this file");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& wrong) {
    if (wrong.get_exit_code() == 0) return app.exit(wrong);
    fmt::print(stderr, "gsched.gpu.segment_ends: {}\n", wrong.what());
    return 2;
  }
  try {
    const gsched::cuda::gpu gpu = gsched::cuda::find_gpu(0); // reports in one line what is missing
    json figures = comparison(o).run();
    if (o.json.empty()) return 0;
    figures = {
        {"experiment", "segment_ends"}, {"gpu", gpu.name},        {"kernels", o.kernels},
        {"segments", o.segments},       {"branches", o.branches}, {"blocks", o.blocks},
        {"kernel_us", o.kernel_us},     {"runs", o.runs},         {"figures", std::move(figures)}};
    std::ofstream out(o.json);
    out << figures.dump(2) << '\n';
    if (!out.flush()) throw std::runtime_error(o.json + ": cannot be written");
    return 0;
  } catch (const std::exception& wrong) {
    fmt::print(stderr, "gsched.gpu.segment_ends: {}\n", wrong.what());
    return 1;
  }
}

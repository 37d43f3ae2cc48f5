// SPDX-License-Identifier: Apache-2.0
#include "run.hpp"
#include "experiment.hpp"
#include "shapes.hpp"
#include "work_graph/built.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/device.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/gpu.hpp>
#include <gsched/cuda/program.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <utility>

namespace forks {

namespace cuda = gsched::cuda;
using experiment::seconds_now;
using nlohmann::ordered_json;

namespace {

/// How a graph is run.
struct variant {
  const char* name;
  bool by_library;   ///< otherwise by one launch of the original graph
  bool yields;       ///< on a lane with gates
  double quantum_us; ///< of its first segment; 0: one segment
  bool grows;        ///< each segment is twice as long as the one before it
};

std::vector<variant> variants_of(const run_options& o) {
  // The dispatcher doubles the quantum of a job that has the GPU alone before its first segment.
  const double grown = std::min(2 * o.grain_us, o.most_us);
  return {{"graph", false, false, 0, false},
          {"whole", true, false, 0, false},
          {"segments", true, false, o.grain_us, false},
          {"growing", true, false, grown, true},
          {"gated whole", true, true, 0, false},
          {"gated segments", true, true, o.grain_us, false},
          {"gated growing", true, true, grown, true}};
}

/// A graph that is run in all ways, in its own memory.
class subject {
public:
  subject(const work_graph::graph& g, const run_options& o, const work_graph::gpu_facts& gpu,
          work_graph::memory_pool& memory)
      : graph_(g), options_(o), built_(g, gpu, memory), program_(built_.get(), named(g.name)),
        device_(device_of(o)) {
    plain_ = device_.open_lane({0, {}, false});
    yielding_ = device_.open_lane({0, {}, true});
    device_.load(program_);
    cuda::check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
    cuda::check(cudaGraphInstantiate(&exec_, built_.get(), cudaGraphInstantiateFlagUseNodePriority),
                "graph");
    cuda::check(cudaGraphUpload(exec_, stream_), "graph");
    built_.reset(); // the library has run it, to measure it
    cuda::check(cudaDeviceSynchronize(), "graph");
  }
  ~subject() {
    cudaGraphExecDestroy(exec_);
    cudaStreamDestroy(stream_);
  }
  subject(const subject&) = delete;
  subject& operator=(const subject&) = delete;

  /// One run, from before its first launch until its end is observed; microseconds.
  double run(const variant& v) {
    ++runs_;
    const double from = seconds_now();
    if (v.by_library)
      run_segments(v);
    else
      run_graph();
    return (seconds_now() - from) * 1e6;
  }
  /// The number of segments of the last run.
  [[nodiscard]] std::size_t segments() const noexcept { return segments_; }
  [[nodiscard]] std::size_t operations() const { return program_.host().size(); }

  /// The first difference of the memory after all runs from the expected one; empty if there is
  /// none.
  [[nodiscard]] std::string difference() const {
    work_graph::oracle expected(graph_);
    for (std::uint64_t r = 0; r < runs_; ++r) expected.run();
    return work_graph::difference(graph_, built_.read(), expected);
  }

private:
  static cuda::program_options named(const std::string& name) {
    cuda::program_options how;
    how.name = name;
    return how;
  }
  static cuda::device_options device_of(const run_options& o) {
    cuda::device_options how;
    how.grain = gsched::from_us(o.grain_us);
    how.levels = 4;
    how.whole = true;
    how.gate_every = o.gate_every;
    return how;
  }

  void run_graph() {
    cuda::check(cudaGraphLaunch(exec_, stream_), "graph");
    cudaError_t e = cudaErrorNotReady;
    while ((e = cudaStreamQuery(stream_)) == cudaErrorNotReady) {
    }
    cuda::check(e, "graph");
    segments_ = 1;
  }

  void run_segments(const variant& v) {
    using kind = gsched::device_event::kind;
    gsched::program& p = program_.host();
    const gsched::lane_id lane = v.yields ? yielding_ : plain_;
    double quantum = v.quantum_us;
    std::size_t next = 0;
    std::size_t in_flight = 0;
    segments_ = 0;
    while (next < p.size() || in_flight > 0) {
      for (; next < p.size() && in_flight < options_.ahead; ++in_flight, ++segments_) {
        const std::size_t last =
            p.cut(next, quantum > 0 ? gsched::from_us(quantum) : gsched::run_to_completion);
        gsched::segment s;
        s.lane = lane;
        s.program = p.id();
        s.first = static_cast<std::uint32_t>(next);
        s.operations = p.range(next, last);
        if (const std::error_code e = device_.submit(s)) cuda::fail(e, "submit of " + p.name());
        next = last;
        if (v.grows) quantum = std::min(2 * quantum, options_.most_us);
      }
      std::array<gsched::device_event, 8> out;
      const std::size_t n = device_.poll(out);
      for (std::size_t i = 0; i < n; ++i) {
        if (out[i].what != kind::segment_done)
          throw gsched::error(gsched::errc::device_failed,
                              p.name() + ": " + device_.failure().value_or("a segment failed"));
        --in_flight;
      }
    }
  }

  const work_graph::graph& graph_;
  const run_options& options_;
  work_graph::built_graph built_;
  cuda::program program_;
  cuda::device device_;
  gsched::lane_id plain_{};
  gsched::lane_id yielding_{};
  cudaStream_t stream_ = nullptr;
  cudaGraphExec_t exec_ = nullptr;
  std::uint64_t runs_ = 0;
  std::size_t segments_ = 0;
};

ordered_json summary(const std::vector<double>& x) {
  return {{"n", x.size()},
          {"p10", experiment::quantile(x, 0.1)},
          {"p50", experiment::median(x)},
          {"p90", experiment::quantile(x, 0.9)}};
}

/// The time of each repeat relative to that of another variant in the same repeat.
std::vector<double> over(const std::vector<double>& x, const std::vector<double>& base) {
  std::vector<double> all;
  for (std::size_t i = 0; i < x.size(); ++i) all.push_back(x[i] / base[i]);
  return all;
}

ordered_json measure(const work_graph::graph& g, const run_options& o,
                     const work_graph::gpu_facts& gpu, work_graph::memory_pool& memory) {
  memory.take_all_back();
  subject s(g, o, gpu, memory);
  const std::vector<variant> variants = variants_of(o);
  std::vector<std::vector<double>> us(variants.size());
  std::vector<std::size_t> segments(variants.size());
  constexpr unsigned warm = 10;
  for (unsigned r = 0; r < o.repeats + warm; ++r)
    for (std::size_t k = 0; k < variants.size(); ++k) {
      const std::size_t i = (k + r) % variants.size(); // each variant is the first alternately
      const double took = s.run(variants[i]);
      segments[i] = s.segments();
      if (r >= warm) us[i].push_back(took);
    }
  const std::string wrong = s.difference();
  if (!wrong.empty()) throw gsched::error(gsched::errc::device_failed, wrong);

  ordered_json out{{"graph", g.name}, {"operations", s.operations()}};
  fmt::print("{:<10} {:>5} {:>9.1f}", g.name, s.operations(), experiment::median(us[0]));
  for (std::size_t i = 0; i < variants.size(); ++i) {
    const std::vector<double> ratio = over(us[i], us[0]);
    out["variants"].push_back({{"name", variants[i].name},
                               {"segments", segments[i]},
                               {"us", summary(us[i])},
                               {"over_graph", summary(ratio)},
                               {"over_whole", summary(over(us[i], us[1]))}});
    if (i > 0)
      fmt::print("  {:>6.3f} ({:.3f}-{:.3f})", experiment::median(ratio),
                 experiment::quantile(ratio, 0.1), experiment::quantile(ratio, 0.9));
  }
  fmt::print("\n");
  std::fflush(stdout);
  return out;
}

void save(const std::string& path, const ordered_json& all) {
  std::ofstream out(path);
  out << all.dump(1) << '\n';
  if (!out.flush())
    throw gsched::error(gsched::errc::io, path + ": cannot be written, expected a writable path");
}

} // namespace

bool run(const run_options& o) {
  std::vector<work_graph::graph> graphs = all_shapes();
  for (const std::string& name : o.graphs)
    if (std::none_of(graphs.begin(), graphs.end(),
                     [&](const work_graph::graph& g) { return g.name == name; }))
      throw gsched::error(gsched::errc::unknown_name,
                          "--graphs: \"" + name + "\", expected one of --help");
  experiment::watchdog dog("gsched.gpu.forks");
  dog.step("start of CUDA", 60);
  const cuda::gpu gpu = cuda::find_gpu(o.gpu);
  cuda::check(cudaSetDevice(o.gpu), "GPU");
  const work_graph::gpu_facts facts = work_graph::prepare_gpu();
  work_graph::memory_pool memory(16u << 20, 4096);
  const double until = seconds_now() + o.seconds;
  ordered_json all{{"experiment", "forks"},     {"gpu", gpu.name},      {"repeats", o.repeats},
                   {"grain_us", o.grain_us},    {"most_us", o.most_us}, {"ahead", o.ahead},
                   {"gate_every", o.gate_every}};
  fmt::print("time over one launch of the whole graph: median (10th to 90th percentile)\n"
             "{:<10} {:>5} {:>9}",
             "graph", "nodes", "graph us");
  for (const variant& v : variants_of(o))
    if (v.by_library) fmt::print("  {:<20}", v.name);
  fmt::print("\n");
  bool good = true;
  for (const work_graph::graph& g : graphs) {
    if (!o.graphs.empty() && std::find(o.graphs.begin(), o.graphs.end(), g.name) == o.graphs.end())
      continue;
    if (seconds_now() > until) {
      fmt::print("{}: left out, --seconds {:g} are over\n", g.name, o.seconds);
      good = false;
      continue;
    }
    dog.step("graph " + g.name, 60 + 1e-4 * o.repeats * work_graph::expected_us(g));
    all["graphs"].push_back(measure(g, o, facts, memory));
    if (!o.json.empty()) save(o.json, all); // also if a later graph fails
    if (o.strict > 0)
      for (const auto& v : all["graphs"].back()["variants"])
        good = good && v["over_graph"]["p50"].get<double>() <= o.strict;
  }
  dog.rest();
  return good;
}

} // namespace forks

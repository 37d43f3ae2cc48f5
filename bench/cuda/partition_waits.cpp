// SPDX-License-Identifier: Apache-2.0
// What makes a graph on a partition wait for a graph on another one: nodes that set or copy memory,
// local memory, clusters. A short graph (60 kernels of 10 us) is replayed on SMs of its own,
// alone and while neighbours replay a long one (10 kernels of 500 us) on theirs.

#include "experiment.hpp"
#include "partition_waits/kernels.hpp"

#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/gpu.hpp>
#include <gsched/cuda/partition/partitions.hpp>

#include <CLI/CLI.hpp>
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace {

namespace cuda = gsched::cuda;
using cuda::check;
using namespace partition_waits;
using json = nlohmann::ordered_json;

/// What stands between a graph's kernels.
enum class between : std::uint8_t {
  nothing,
  sets,            ///< memset nodes, in the context of the GPU: as captured
  sets_there,      ///< memset nodes, in the context of the partition
  sets_as_kernels, ///< kernels on the partition
  copies,          ///< memcpy nodes inside the GPU
};

constexpr std::array between_names{"nothing", "sets", "sets of the partition", "sets as kernels",
                                   "copies"};

struct work {
  between what = between::nothing;
  std::uint64_t bytes = 4;   ///< of a set or a copy
  std::uint32_t local = 0;   ///< bytes of local memory of each thread of half of the kernels
  std::uint32_t cluster = 1; ///< blocks
};

struct setting {
  std::string name;
  work victim, neighbour;
  int neighbours = 1;
};

std::vector<setting> settings() {
  const work none;
  std::vector<setting> all{{"nothing", none, none}};
  const auto add = [&](const std::string& name, const work& victim, const work& neighbour,
                       int neighbours = 1) {
    all.push_back({name, victim, neighbour, neighbours});
  };
  for (std::size_t i = 1; i < between_names.size(); ++i) {
    const work w{.what = static_cast<between>(i)};
    add(fmt::format("{} in both", between_names[i]), w, w);
  }
  const work sets{.what = between::sets};
  add("sets in the victim", sets, none);
  add("sets in the neighbour", none, sets);
  for (const std::uint64_t bytes : {512u, 16u << 10, 1u << 20})
    add(fmt::format("sets of {} bytes in both", bytes), {.what = between::sets, .bytes = bytes},
        {.what = between::sets, .bytes = bytes});
  add("nothing, 6 neighbours", none, none, 6);
  add("sets in all, 6 neighbours", sets, sets, 6);
  add("sets as kernels in all, 6 neighbours", {.what = between::sets_as_kernels},
      {.what = between::sets_as_kernels}, 6);
  for (const std::uint32_t local : {16u, 1024u, 16384u}) {
    add(fmt::format("{} bytes of local memory in both", local), {.local = local}, {.local = local});
    add(fmt::format("{} bytes of local memory in the neighbour", local), none, {.local = local});
  }
  add("clusters of 4 in both", {.cluster = 4}, {.cluster = 4});
  return all;
}

CUkernel kernel_of(const void* function) {
  cudaKernel_t kernel = nullptr;
  check(cudaGetKernel(&kernel, function), "kernel");
  return reinterpret_cast<CUkernel>(kernel);
}

/// A graph on a partition, with a stream there.
class placed {
public:
  placed(int gpu, const std::vector<std::uint32_t>& groups, const work& w, int kernels,
         double kernel_us, double cycles_per_us)
      : place_(gpu, groups) {
    const auto& cu = cuda::driver();
    check(cudaMalloc(&memory_, 2 * w.bytes), "memory");
    CUcontext primary = nullptr;
    check(cu.cuCtxGetCurrent(&primary), "context");
    check(cu.cuGraphCreate(&graph_, 0), "graph");
    CUgraphNode last = nullptr;
    const auto chain = [&](CUgraphNode made) {
      if (last != nullptr) {
        const CUgraphEdgeData plain{};
        check(cu.cuGraphAddDependencies(graph_, &last, &made, &plain, 1), "edge");
      }
      last = made;
    };
    for (int i = 0; i < kernels; ++i) {
      spin_arguments a;
      a.cycles = static_cast<std::uint64_t>(kernel_us * cycles_per_us);
      chain(kernel(spin_kernel(i % 2 == 0 ? 0 : w.local), &a, place_.sms().count(), w.cluster));
      if (w.what != between::nothing) chain(other(w, primary));
    }
    stream_ = place_.make_stream(0);
    check(cu.cuGraphInstantiateWithFlags(&exec_, graph_, 0), "graph");
    check(cu.cuGraphUpload(exec_, stream_), "graph");
    check(cudaStreamSynchronize(stream_), "graph");
    for (cudaEvent_t& e : events_) check(cudaEventCreate(&e), "event");
  }
  ~placed() {
    for (cudaEvent_t e : events_) cudaEventDestroy(e);
    cudaGraphExecDestroy(exec_);
    cuda::driver().cuGraphDestroy(graph_);
    cudaStreamDestroy(stream_);
    cudaFree(memory_);
  }
  placed(const placed&) = delete;
  placed& operator=(const placed&) = delete;

  void launch() const { check(cuda::driver().cuGraphLaunch(exec_, stream_), "graph"); }
  void wait() const { check(cudaStreamSynchronize(stream_), "graph"); }
  [[nodiscard]] bool has_ended() const {
    const cudaError_t e = cudaStreamQuery(stream_);
    if (e == cudaErrorNotReady) {
      static_cast<void>(cudaGetLastError());
      return false;
    }
    check(e, "graph");
    return true;
  }
  void begin() const {
    check(cudaEventRecord(events_[0], stream_), "event");
    launch();
    check(cudaEventRecord(events_[1], stream_), "event");
  }
  [[nodiscard]] double us() const {
    float ms = 0;
    check(cudaEventElapsedTime(&ms, events_[0], events_[1]), "event");
    return 1e3 * static_cast<double>(ms);
  }

private:
  CUgraphNode kernel(const void* function, void* argument, unsigned blocks, unsigned cluster) {
    void* arguments[] = {argument};
    CUDA_KERNEL_NODE_PARAMS k{};
    k.kern = kernel_of(function);
    k.ctx = place_.context();
    k.gridDimX = blocks / cluster * cluster;
    k.gridDimY = k.gridDimZ = 1;
    k.blockDimX = 128;
    k.blockDimY = k.blockDimZ = 1;
    k.kernelParams = arguments;
    CUgraphNode made = nullptr;
    check(cuda::driver().cuGraphAddKernelNode(&made, graph_, nullptr, 0, &k), "kernel");
    if (cluster > 1) {
      CUlaunchAttributeValue value{};
      value.clusterDim = {cluster, 1, 1};
      check(cuda::driver().cuGraphKernelNodeSetAttribute(
                made, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &value),
            "cluster");
    }
    return made;
  }

  CUgraphNode other(const work& w, CUcontext primary) {
    const auto& cu = cuda::driver();
    const auto to = reinterpret_cast<CUdeviceptr>(memory_);
    CUgraphNode made = nullptr;
    if (w.what == between::sets_as_kernels) {
      set_arguments a{static_cast<std::uint32_t*>(memory_), w.bytes / 4};
      return kernel(set_kernel(), &a, 1, 1);
    }
    if (w.what == between::copies) {
      CUDA_MEMCPY3D c{};
      c.srcMemoryType = c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
      c.srcDevice = to + w.bytes;
      c.dstDevice = to;
      c.WidthInBytes = w.bytes;
      c.Height = c.Depth = 1;
      check(cu.cuGraphAddMemcpyNode(&made, graph_, nullptr, 0, &c, primary), "copy");
      return made;
    }
    CUDA_MEMSET_NODE_PARAMS s{};
    s.dst = to;
    s.elementSize = 4;
    s.width = w.bytes / 4;
    s.height = 1;
    check(cu.cuGraphAddMemsetNode(&made, graph_, nullptr, 0, &s,
                                  w.what == between::sets_there ? place_.context() : primary),
          "set");
    return made;
  }

  cuda::partition place_;
  void* memory_ = nullptr;
  CUgraph graph_ = nullptr;
  CUgraphExec exec_ = nullptr;
  CUstream stream_ = nullptr;
  std::array<cudaEvent_t, 2> events_{};
};

struct times {
  double p50 = 0, p90 = 0, most = 0;
  std::size_t n = 0;
};

times of(std::vector<double> us) {
  return {experiment::median(us), experiment::quantile(us, 0.9), experiment::quantile(us, 1),
          us.size()};
}

json to_json(const times& t) {
  return {{"p50_us", t.p50}, {"p90_us", t.p90}, {"max_us", t.most}, {"count", t.n}};
}

/// Replays the victim for that long, each after a pause, with the neighbours replaying at all
/// times.
times replay(const placed& victim, const std::vector<std::unique_ptr<placed>>& neighbours,
             double seconds) {
  constexpr double pause = 200e-6;
  std::vector<double> us;
  const double end = experiment::seconds_now() + seconds;
  double next = 0;
  bool runs = false;
  while (experiment::seconds_now() < end || runs) {
    for (const auto& n : neighbours)
      if (n->has_ended()) n->launch();
    if (runs && victim.has_ended()) {
      us.push_back(victim.us());
      runs = false;
      next = experiment::seconds_now() + pause;
    }
    if (!runs && experiment::seconds_now() >= next && experiment::seconds_now() < end) {
      victim.begin();
      runs = true;
    }
  }
  for (const auto& n : neighbours) n->wait();
  return of(std::move(us));
}

} // namespace

int main(int argc, char** argv) {
  int gpu = 0;
  double seconds = 0.3;
  std::string only;
  std::string file;
  CLI::App app("What makes a graph on a partition wait for a graph on another one.\n"
               "CUDA_DEVICE_MAX_CONNECTIONS is 32 unless the environment says otherwise.");
  app.add_option("--gpu", gpu, "the GPU's number")->check(CLI::Range(0, 1024));
  app.add_option("--seconds", seconds, "of replays alone and beside, each")
      ->check(CLI::Range(0.01, 100.))
      ->capture_default_str();
  app.add_option("--only", only, "settings whose name holds this");
  app.add_option("--json", file, "write the figures to this file, as they come");
  CLI11_PARSE(app, argc, argv);
  try {
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    experiment::watchdog watch("gsched.gpu.partition_waits");
    watch.step("the GPU", 60);
    const cuda::gpu on = cuda::find_gpu(gpu);
    check(cudaSetDevice(gpu), "GPU");
    int khz = 0;
    check(cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, gpu), "clock");
    const double cycles_per_us = khz * 1e-3;
    json out{{"gpu", on.name},
             {"driver", on.driver_version},
             {"connections", std::getenv("CUDA_DEVICE_MAX_CONNECTIONS")},
             {"rows", json::array()}};
    fmt::print("{:46}{:>10}{:>10}{:>10}{:>10}{:>10}\n", "", "alone p50", "beside", "p90", "max, us",
               "replays");
    for (const setting& s : settings()) {
      if (s.name.find(only) == std::string::npos) continue;
      watch.step(s.name, 20 + 4 * seconds);
      const placed victim(gpu, {0, 1}, s.victim, 60, 10, cycles_per_us);
      std::vector<std::unique_ptr<placed>> neighbours;
      for (int i = 0; i < s.neighbours; ++i) {
        const auto first = static_cast<std::uint32_t>(2 + 2 * i);
        neighbours.push_back(std::make_unique<placed>(gpu,
                                                      std::vector<std::uint32_t>{first, first + 1},
                                                      s.neighbour, 10, 500, cycles_per_us));
      }
      static_cast<void>(replay(victim, neighbours, 0.02)); // the first replays load things
      const times alone = replay(victim, {}, seconds);
      const times beside = replay(victim, neighbours, seconds);
      out["rows"].push_back({{"setting", s.name},
                             {"neighbours", s.neighbours},
                             {"alone", to_json(alone)},
                             {"beside", to_json(beside)}});
      fmt::print("{:46}{:>10.1f}{:>10.1f}{:>10.1f}{:>10.1f}{:>10}\n", s.name, alone.p50, beside.p50,
                 beside.p90, beside.most, beside.n);
      std::fflush(stdout);
      if (!file.empty()) std::ofstream(file) << out.dump(1) << '\n';
    }
    watch.rest();
    return 0;
  } catch (const std::exception& wrong) {
    fmt::print(stderr, "gsched.gpu.partition_waits: {}\n", wrong.what());
    return 1;
  }
}

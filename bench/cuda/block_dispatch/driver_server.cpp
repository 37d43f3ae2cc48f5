// SPDX-License-Identifier: Apache-2.0
// Jobs submitted directly to the driver: each job is a graph on the next stream of its tenant. The
// last kernel of a job counts in pinned memory, like the markers of gsched's segments.

#include "block_dispatch/graph.hpp"
#include "block_dispatch/way.hpp"

#include <gsched/cuda/error.hpp>

#include <array>
#include <deque>

namespace block_dispatch {

using gsched::cuda::check;

namespace {

struct alignas(64) line {
  unsigned long long value = 0;
};

struct stream {
  cudaStream_t handle = nullptr;
  cudaGraphExec_t graph = nullptr;
  std::deque<std::uint32_t> jobs; ///< submitted to it, oldest first
  line* word = nullptr;
  unsigned long long* count = nullptr; ///< on the GPU
  unsigned long long seen = 0;         ///< of the word
};

class driver_server final : public server {
public:
  explicit driver_server(const server_options& o) {
    for (unsigned t = 0; t < o.what.tenants.size(); ++t)
      for (unsigned i = 0; i < o.lanes; ++i)
        streams_[t].push_back(
            make_stream(o.what.tenants[t], o.cycles_per_us, o.how.priorities ? -2 + int(t) : 0));
    check(cudaDeviceSynchronize(), "set-up");
  }
  driver_server(const driver_server&) = delete;
  driver_server& operator=(const driver_server&) = delete;
  ~driver_server() override {
    for (auto& of : streams_)
      for (stream& s : of) {
        static_cast<void>(cudaStreamSynchronize(s.handle));
        static_cast<void>(cudaGraphExecDestroy(s.graph));
        static_cast<void>(cudaStreamDestroy(s.handle));
        static_cast<void>(cudaFreeHost(s.word));
        static_cast<void>(cudaFree(s.count));
      }
  }

  void submit(unsigned tenant, std::uint32_t job) override {
    auto& of = streams_[tenant];
    stream& s = of[next_[tenant]++ % of.size()];
    check(cudaGraphLaunch(s.graph, s.handle), "graph launch");
    s.jobs.push_back(job);
  }

  void poll(std::vector<std::uint32_t>& ended) override {
    for (auto& of : streams_)
      for (stream& s : of) {
        if (s.jobs.empty()) continue;
        const auto now = static_cast<const volatile unsigned long long&>(s.word->value);
        for (; s.seen < now; ++s.seen) {
          ended.push_back(s.jobs.front());
          s.jobs.pop_front();
        }
      }
  }

private:
  static stream make_stream(const tenant& of, long long cycles_per_us, int priority) {
    stream s;
    check(cudaStreamCreateWithPriority(&s.handle, cudaStreamNonBlocking, priority), "stream");
    check(cudaHostAlloc(reinterpret_cast<void**>(&s.word), sizeof(line), cudaHostAllocMapped),
          "pinned memory");
    *s.word = {};
    check(cudaMalloc(reinterpret_cast<void**>(&s.count), sizeof *s.count), "memory");
    check(cudaMemset(s.count, 0, sizeof *s.count), "memory");
    auto [graph, last] = make_chain(of, cycles_per_us, false);
    void* word = nullptr;
    check(cudaHostGetDevicePointer(&word, s.word, 0), "pinned memory");
    void* arguments[] = {&s.count, &word};
    cudaKernelNodeParams how{};
    how.func = const_cast<void*>(tell_kernel());
    how.gridDim = dim3(1);
    how.blockDim = dim3(1);
    how.kernelParams = arguments;
    cudaGraphNode_t tells = nullptr;
    check(cudaGraphAddKernelNode(&tells, graph, &last, 1, &how), "graph kernel");
    // Kernels of a graph keep the priority of their nodes.
    std::vector<cudaGraphNode_t> nodes(of.kernels + 1);
    std::size_t n = nodes.size();
    check(cudaGraphGetNodes(graph, nodes.data(), &n), "graph");
    cudaLaunchAttributeValue value{};
    value.priority = priority;
    for (const cudaGraphNode_t node : nodes)
      check(cudaGraphKernelNodeSetAttribute(node, cudaLaunchAttributePriority, &value), "graph");
    check(cudaGraphInstantiate(&s.graph, graph, 0), "graph instantiation");
    check(cudaGraphUpload(s.graph, s.handle), "graph upload");
    check(cudaGraphDestroy(graph), "graph");
    return s;
  }

  std::array<std::vector<stream>, 3> streams_;
  std::array<std::size_t, 3> next_{};
};

} // namespace

std::unique_ptr<server> make_driver_server(const server_options& o) {
  return std::make_unique<driver_server>(o);
}

} // namespace block_dispatch

// SPDX-License-Identifier: Apache-2.0
// Jobs submitted directly to the driver: each on the next stream, or interleaved by hand. The last
// kernel of a job notifies the host itself, so that the streams contain only kernels.

#include "head_of_line/kernels.hpp"
#include "head_of_line/way.hpp"

#include <gsched/cuda/error.hpp>
#include <gsched/cuda/partition/partitions.hpp>

#include <algorithm>
#include <deque>
#include <utility>

namespace head_of_line {

using gsched::cuda::check;

namespace {

struct alignas(64) line {
  unsigned long long value = 0;
};

struct stream {
  cudaStream_t handle = nullptr;
  hold_arguments telling;          ///< of a kernel that counts
  cudaGraphExec_t graph = nullptr; ///< the whole job, or one kernel that counts
  std::deque<std::uint32_t> jobs;  ///< submitted to it, oldest first
  unsigned long long seen = 0;     ///< of its word
  unsigned left = 0;               ///< interleaved: kernels of its job not yet submitted
  bool busy = false;
};

class driver_server final : public server {
public:
  driver_server(const way& w, const job_shape& job, long long cycles)
      : how_(w.how), job_(job), cycles_(cycles), streams_(w.streams) {
    check(cudaHostAlloc(reinterpret_cast<void**>(&words_), w.streams * sizeof(line),
                        cudaHostAllocMapped),
          "pinned memory");
    std::fill_n(words_, w.streams, line{});
    unsigned long long* counts = nullptr;
    const std::size_t bytes = w.streams * sizeof *counts;
    check(cudaMalloc(reinterpret_cast<void**>(&counts), bytes), "memory");
    const std::vector<unsigned long long> zeros(w.streams);
    check(cudaMemcpy(counts, zeros.data(), bytes, cudaMemcpyHostToDevice), "memory");
    int gpu = 0;
    check(cudaGetDevice(&gpu), "GPU");
    const unsigned sms = w.partitions > 0 ? 128 / w.partitions : 0; // groups of 8 SMs
    for (unsigned i = 0; i < w.partitions; ++i)
      partitions_.push_back(std::make_unique<gsched::cuda::partition>(gpu, gsched::sm_count{sms}));
    for (unsigned i = 0; i < w.streams; ++i) {
      stream& s = streams_[i];
      const int priority = -static_cast<int>(i % w.priorities);
      if (w.partitions > 0)
        s.handle = partitions_[i % w.partitions]->make_stream(priority);
      else
        check(cudaStreamCreateWithPriority(&s.handle, cudaStreamNonBlocking, priority), "stream");
      void* word = nullptr;
      check(cudaHostGetDevicePointer(&word, words_ + i, 0), "pinned memory");
      s.telling = {cycles, counts + i, static_cast<unsigned long long*>(word)};
      if (how_ == submitter::graph) s.graph = make_graph(s, job_.kernels);
      if (how_ == submitter::interleaved_graphs) s.graph = make_graph(s, 1);
      idle_.push_front(i);
    }
    check(cudaDeviceSynchronize(), "set-up");
  }

  void submit(std::uint32_t job) override {
    if (by_hand()) {
      waiting_.push_back(job);
      return start_waiting();
    }
    const unsigned at = next_;
    next_ = (next_ + 1) % static_cast<unsigned>(streams_.size());
    stream& s = streams_[at];
    if (how_ == submitter::graph) {
      launch_graph(s);
    } else {
      for (unsigned i = 1; i < job_.kernels; ++i) launch({cycles_, nullptr, nullptr}, s);
      launch(s.telling, s);
    }
    s.jobs.push_back(job);
    mark_busy(at);
  }

  void poll(std::vector<std::uint32_t>& ended) override {
    for (std::size_t i = 0; i < busy_.size();) {
      const unsigned at = busy_[i];
      stream& s = streams_[at];
      const auto now = static_cast<const volatile unsigned long long&>(words_[at].value);
      while (s.seen < now) kernel_or_job_ended(s, at, ended);
      if (!s.jobs.empty()) {
        ++i;
        continue;
      }
      s.busy = false;
      busy_[i] = busy_.back();
      busy_.pop_back();
    }
    if (by_hand()) start_waiting();
  }

  std::uint64_t submissions() const override { return submissions_; }

private:
  [[nodiscard]] bool by_hand() const {
    return how_ == submitter::interleaved || how_ == submitter::interleaved_graphs;
  }

  void launch(const hold_arguments& a, const stream& s) {
    check(launch_hold(a, s.handle), "kernel launch");
    ++submissions_;
  }
  void launch_graph(const stream& s) {
    check(cudaGraphLaunch(s.graph, s.handle), "graph launch");
    ++submissions_;
  }

  void mark_busy(unsigned at) {
    if (std::exchange(streams_[at].busy, true)) return;
    busy_.push_back(at);
  }

  void kernel_or_job_ended(stream& s, unsigned at, std::vector<std::uint32_t>& ended) {
    ++s.seen;
    if (by_hand() && s.left > 0) return next_kernel(s);
    ended.push_back(s.jobs.front());
    s.jobs.pop_front();
    if (by_hand()) idle_.push_back(at);
  }

  void next_kernel(stream& s) {
    --s.left;
    if (how_ == submitter::interleaved)
      launch(s.telling, s);
    else
      launch_graph(s);
  }

  void start_waiting() {
    while (!waiting_.empty() && !idle_.empty()) {
      const unsigned at = idle_.front();
      idle_.pop_front();
      stream& s = streams_[at];
      s.jobs.push_back(waiting_.front());
      waiting_.pop_front();
      s.left = job_.kernels;
      next_kernel(s);
      mark_busy(at);
    }
  }

  cudaGraphExec_t make_graph(stream& s, unsigned kernels) const {
    cudaGraph_t graph = nullptr;
    check(cudaGraphCreate(&graph, 0), "graph");
    cudaGraphNode_t last = nullptr;
    for (unsigned i = 0; i < kernels; ++i) {
      hold_arguments a = i + 1 == kernels ? s.telling : hold_arguments{cycles_, nullptr, nullptr};
      void* arguments[] = {&a.cycles, &a.ended, &a.word};
      cudaKernelNodeParams how{};
      how.func = const_cast<void*>(hold_kernel());
      how.gridDim = dim3(1);
      how.blockDim = dim3(block_threads);
      how.kernelParams = arguments;
      cudaGraphNode_t node = nullptr;
      check(cudaGraphAddKernelNode(&node, graph, &last, i == 0 ? 0 : 1, &how), "graph kernel");
      last = node;
    }
    cudaGraphExec_t exec = nullptr;
    check(cudaGraphInstantiate(&exec, graph, 0),
          "graph instantiation"); // takes the stream's priority
    check(cudaGraphUpload(exec, s.handle), "graph upload");
    check(cudaGraphDestroy(graph), "graph");
    return exec;
  }

  submitter how_;
  job_shape job_;
  long long cycles_;
  std::vector<std::unique_ptr<gsched::cuda::partition>> partitions_;
  std::vector<stream> streams_;
  line* words_ = nullptr; // freed at the end of the process, like streams and graphs
  std::vector<unsigned> busy_;
  std::deque<unsigned> idle_;
  std::deque<std::uint32_t> waiting_;
  unsigned next_ = 0;
  std::uint64_t submissions_ = 0;
};

} // namespace

std::unique_ptr<server> make_driver_server(const way& w, const job_shape& job, long long cycles) {
  return std::make_unique<driver_server>(w, job, cycles);
}

} // namespace head_of_line

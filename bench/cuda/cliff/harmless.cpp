// SPDX-License-Identifier: Apache-2.0
// Operations other than direct launches, on 12 streams 50 times each, and graphs on more streams.

#include "cliff/experiments.hpp"

#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>

#include <cstdint>

namespace cliff {

using gsched::cuda::check;
using gsched::cuda::driver;

namespace {

/// Performs `one` on each stream alternately.
template <class One>
experiment_case on_streams(const std::string& name, std::size_t streams, int each, One one) {
  return {name, [=](scene& s) {
            s.mark("before");
            s.dog().step(name, 20);
            const std::vector<cudaStream_t> on = s.streams(streams);
            for (int i = 0; i < each; ++i)
              for (const cudaStream_t stream : on) one(stream);
            s.synchronise();
            s.mark("after");
          }};
}

struct buffers {
  static constexpr std::size_t bytes = std::size_t{1} << 16;
  void* device = nullptr;
  void* other = nullptr;
  void* pinned = nullptr;
  std::vector<char> pageable = std::vector<char>(bytes);

  /// One for the process, created at the first call.
  static buffers& get() {
    static buffers made = [] {
      buffers b;
      check(cudaMalloc(&b.device, bytes), "memory");
      check(cudaMalloc(&b.other, bytes), "memory");
      check(cudaMallocHost(&b.pinned, bytes), "pinned memory");
      return b;
    }();
    return made;
  }
};

void copy(void* to, const void* from, cudaMemcpyKind kind, cudaStream_t on) {
  check(cudaMemcpyAsync(to, from, buffers::bytes, kind, on), "copy");
}

void CUDART_CB nothing(void*) {}

experiment_case graphs(const std::string& name, std::size_t streams, int each, std::size_t width,
                       std::size_t depth) {
  return {name, [=](scene& s) {
            s.mark("before");
            s.dog().step(name, 20);
            const std::vector<cudaStream_t> on = s.streams(streams);
            std::vector<cudaGraphExec_t> own;
            for (std::size_t i = 0; i < streams; ++i)
              own.push_back(make_graph(width, depth, s.memory()));
            for (int i = 0; i < each; ++i)
              for (std::size_t k = 0; k < streams; ++k)
                check(cudaGraphLaunch(own[k], on[k]), "graph launch");
            s.synchronise();
            s.mark("after");
          }};
}

} // namespace

void add_harmless(cases& to) {
  constexpr std::size_t n = 12;
  constexpr int each = 50;
  // Graphs: many streams; parallel branches, which the driver may assign to queues of its own.
  to.push_back(graphs("graph.one_kernel.s64.l20", 64, 20, 1, 1));
  to.push_back(graphs("graph.ten_kernels.s12.l50", n, each, 1, 10));
  to.push_back(graphs("graph.ten_kernels.s64.l20", 64, 20, 1, 10));
  for (const unsigned width : {2U, 4U, 8U, 16U, 32U})
    to.push_back(graphs("graph.fork" + std::to_string(width) + ".s1.l50", 1, each, width, 10));
  to.push_back(graphs("graph.fork8.s12.l20", n, 20, 8, 10));

  to.push_back(on_streams("other.copy_h2d_pinned", n, each, [](cudaStream_t s) {
    copy(buffers::get().device, buffers::get().pinned, cudaMemcpyHostToDevice, s);
  }));
  to.push_back(on_streams("other.copy_h2d_pageable", n, each, [](cudaStream_t s) {
    copy(buffers::get().device, buffers::get().pageable.data(), cudaMemcpyHostToDevice, s);
  }));
  to.push_back(on_streams("other.copy_d2h_pinned", n, each, [](cudaStream_t s) {
    copy(buffers::get().pinned, buffers::get().device, cudaMemcpyDeviceToHost, s);
  }));
  to.push_back(on_streams("other.copy_d2d", n, each, [](cudaStream_t s) {
    copy(buffers::get().other, buffers::get().device, cudaMemcpyDeviceToDevice, s);
  }));
  to.push_back(on_streams("other.memset", n, each, [](cudaStream_t s) {
    check(cudaMemsetAsync(buffers::get().device, 0, buffers::bytes, s), "memset");
  }));
  to.push_back(on_streams("other.memset_2d", n, each, [](cudaStream_t s) {
    check(cudaMemset2DAsync(buffers::get().device, 512, 0, 100, 64, s), "memset");
  }));
  to.push_back(on_streams("other.events", n, each, [](cudaStream_t s) {
    static cudaEvent_t e = [] {
      cudaEvent_t made = nullptr;
      check(cudaEventCreateWithFlags(&made, cudaEventDisableTiming), "event");
      return made;
    }();
    check(cudaStreamWaitEvent(s, e, 0), "event");
    check(cudaEventRecord(e, s), "event");
  }));
  to.push_back(on_streams("other.host_function", n, each, [](cudaStream_t s) {
    check(cudaLaunchHostFunc(s, nothing, nullptr), "host function");
  }));
  to.push_back(on_streams("other.write_value", n, each, [](cudaStream_t s) {
    check(driver().cuStreamWriteValue64(s, reinterpret_cast<CUdeviceptr>(buffers::get().pinned), 1,
                                        0),
          "write value");
  }));
  to.push_back(on_streams("other.malloc_async", n, each, [](cudaStream_t s) {
    void* room = nullptr;
    check(cudaMallocAsync(&room, std::size_t{1} << 16, s), "cudaMallocAsync");
    check(cudaFreeAsync(room, s), "cudaFreeAsync");
  }));
}

} // namespace cliff

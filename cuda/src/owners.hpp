// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <string>
#include <type_traits>

namespace gsched::cuda {

/// RAII handles of CUDA objects, so that set-up that throws leaks nothing. If the GPU hangs, call
/// release(), because destruction would wait for it.

struct stream_destroyer {
  void operator()(cudaStream_t s) const noexcept { cudaStreamDestroy(s); }
};
using stream_owner = std::unique_ptr<std::remove_pointer_t<cudaStream_t>, stream_destroyer>;

struct event_destroyer {
  void operator()(cudaEvent_t e) const noexcept { cudaEventDestroy(e); }
};
using event_owner = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, event_destroyer>;

struct graph_destroyer {
  void operator()(CUgraph g) const noexcept { driver().cuGraphDestroy(g); }
};
using graph_owner = std::unique_ptr<std::remove_pointer_t<CUgraph>, graph_destroyer>;

struct exec_destroyer {
  void operator()(cudaGraphExec_t e) const noexcept { cudaGraphExecDestroy(e); }
};
using exec_owner = std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, exec_destroyer>;

struct device_freer {
  void operator()(void* p) const noexcept { cudaFree(p); }
};
template <class T>
using device_memory = std::unique_ptr<T, device_freer>;

/// Makes a stream that does not synchronise with the default stream.
/// Errors   device_failed: WHAT, CUDA's message.
[[nodiscard]] inline stream_owner make_stream(const std::string& what, int priority = 0) {
  cudaStream_t s = nullptr;
  check(cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, priority), what.c_str());
  return stream_owner(s);
}
[[nodiscard]] inline event_owner make_event(const std::string& what, bool timed = true) {
  cudaEvent_t e = nullptr;
  check(cudaEventCreateWithFlags(&e, timed ? cudaEventDefault : cudaEventDisableTiming),
        what.c_str());
  return event_owner(e);
}
template <class T>
[[nodiscard]] device_memory<T> make_device_memory(std::size_t n, const std::string& what) {
  void* p = nullptr;
  check(cudaMalloc(&p, n * sizeof(T)), what.c_str());
  return device_memory<T>(static_cast<T*>(p));
}

} // namespace gsched::cuda

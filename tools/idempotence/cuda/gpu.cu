// SPDX-License-Identifier: Apache-2.0
#include "common/run/watchdog.hpp"
#include "idempotence/cuda/network.hpp"
#include "idempotence/cuda/traced.cuh"

#include <gsched/cuda/capture.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/gpu.hpp>
#include <gsched/cuda_tools/graph_accesses.hpp>
#include <gsched/cuda_tools/idempotence_check.hpp>
#include <gsched/cuda_tools/tracing.hpp>

#include <array>
#include <cstddef>
#include <vector>

namespace idempotence {

namespace {

using gsched::cuda::check;

/// The buffers on the GPU; input and output in pinned memory.
class gpu_memory {
public:
  explicit gpu_memory(bool reuse) {
    const auto all = m_.all();
    for (std::size_t b = 0; b < all.size(); ++b) {
      std::vector<float> first;
      for (int i = 0; i < memory::sizes[b]; ++i) first.push_back(first_value(b, i));
      const std::size_t bytes = first.size() * sizeof(float);
      void* at = nullptr;
      check(on_host(b) ? cudaMallocHost(&at, bytes) : cudaMalloc(&at, bytes), "network");
      owned_[b] = at;
      check(cudaMemcpy(at, first.data(), bytes, cudaMemcpyDefault), "network");
      *all[b] = static_cast<float*>(at);
    }
    if (reuse) m_.g = m_.h;
  }
  ~gpu_memory() {
    for (std::size_t b = 0; b < owned_.size(); ++b) {
      if (on_host(b))
        cudaFreeHost(owned_[b]);
      else
        cudaFree(owned_[b]);
    }
  }
  gpu_memory(const gpu_memory&) = delete;
  gpu_memory& operator=(const gpu_memory&) = delete;
  [[nodiscard]] const memory& get() const noexcept { return m_; }

private:
  [[nodiscard]] static bool on_host(std::size_t b) noexcept { return b + 2 >= memory::buffers; }
  memory m_{};
  std::array<void*, memory::buffers> owned_{};
};

class tracing_visitor {
public:
  explicit tracing_visitor(gsched::access_trace& into) : trace_(into) {}

  void copy(const char* name, void* to, const void* from, std::size_t bytes) {
    check(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), name);
    trace_.operations.push_back(copied(name, to, from, bytes));
  }
  void set(const char* name, void* at, std::size_t bytes) {
    check(cudaMemset(at, 0, bytes), name);
    trace_.operations.push_back(cleared(name, at, bytes));
  }
  template <class Body, class... A>
  void kernel(const char* name, int n, A... a) {
    trace_.operations.push_back(recorder_.trace(name, {.grid = blocks_for(n), .block = threads},
                                                run<Body, typename as_traced<A>::type...>, n,
                                                a...));
  }

private:
  gsched::access_trace& trace_;
  gsched::cuda::access_recorder recorder_{1u << 22};
};

struct capturing_visitor {
  cudaStream_t stream;

  void copy(const char* name, void* to, const void* from, std::size_t bytes) const {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), name);
  }
  void set(const char* name, void* at, std::size_t bytes) const {
    check(cudaMemsetAsync(at, 0, bytes, stream), name);
  }
  template <class Body, class... A>
  void kernel(const char* name, int n, A... a) const {
    run<Body, A...><<<blocks_for(n), threads, 0, stream>>>(n, a...);
    check(cudaGetLastError(), name);
  }
};

void run_twice(const gsched::cuda::program& p, finding& f) {
  f.checked = true;
  for (std::size_t k = 0; k < f.trace.operations.size(); ++k) {
    if (f.trace.operations[k].kind != gsched::operation_kind::kernel) continue;
    gsched::access_trace one = f.trace;
    one.operations[k].says = gsched::declared::idempotent;
    if (const auto found = gsched::cuda::find_clobber(p, one)) f.changed.emplace(k, found->range);
  }
}

} // namespace

std::vector<finding> trace_on_gpu(const options& o) {
  const common::watchdog limit("idempotence", o.limit_s);
  static_cast<void>(gsched::cuda::find_gpu(*o.device.gpu));
  check(cudaSetDevice(*o.device.gpu), "GPU");
  const gpu_memory buffers(o.reuse);

  finding traced{"traced by address on the GPU"};
  traced.trace.model = model_name(o.reuse);
  each_operation(buffers.get(), tracing_visitor(traced.trace));

  gsched::cuda::program_options how;
  how.name = model_name(o.reuse);
  how.measure = false;
  const gsched::cuda::program p = gsched::cuda::capture(
      how, [&](cudaStream_t s) { each_operation(buffers.get(), capturing_visitor{s}); });
  finding captured{"captured, by its kernels' arguments", accesses_of(p)};
  for (std::size_t k = 0; k < captured.trace.operations.size(); ++k)
    captured.trace.operations[k].name = traced.trace.operations[k].name;
  if (o.check) run_twice(p, captured);
  std::vector<finding> both;
  both.push_back(std::move(traced));
  both.push_back(std::move(captured));
  return both;
}

} // namespace idempotence

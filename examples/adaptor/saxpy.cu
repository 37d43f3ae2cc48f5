// SPDX-License-Identifier: Apache-2.0
// A model of one's own that runs on a GPU: 2 x + y, as a captured graph for each instance. It is
// served by gsched_server --device cuda:0 --adaptor ./libsaxpy.so.
#include <gsched/cuda/capture.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/server/adaptor.hpp>

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

using namespace gsched;

namespace {

constexpr int elements = 1 << 16;
constexpr std::size_t bytes = elements * sizeof(float);

__global__ void add_twice(const float* x, float* y) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < elements) y[i] += 2 * x[i];
}

/// A graph, and the memory whose addresses it holds: x and y on the GPU, and pinned on the host.
struct instance {
  instance() {
    cuda::check(cudaMalloc(&gpu, 2 * bytes), "device memory");
    cuda::check(cudaMallocHost(&host, 2 * bytes), "pinned memory");
    std::memset(host, 0, 2 * bytes);
    graph.emplace(cuda::capture("saxpy", [this](cudaStream_t s) {
      cuda::check(cudaMemcpyAsync(gpu, host, 2 * bytes, cudaMemcpyDefault, s), "inputs");
      add_twice<<<elements / 256, 256, 0, s>>>(gpu, gpu + elements);
      cuda::check(cudaMemcpyAsync(host + elements, gpu + elements, bytes, cudaMemcpyDefault, s),
                  "output");
    }));
  }
  ~instance() {
    graph.reset();
    static_cast<void>(cudaFreeHost(host));
    static_cast<void>(cudaFree(gpu));
  }
  instance(const instance&) = delete;
  instance& operator=(const instance&) = delete;

  float *gpu = nullptr, *host = nullptr;
  std::optional<cuda::program> graph;
};

class saxpy final : public adaptor {
public:
  adaptor_signature signature() const override {
    return {{{"x", "FP32", {elements}}, {"y", "FP32", {elements}}}, {{"sum", "FP32", {elements}}}};
  }

  void init(adaptor_context& context) override { // with the GPU as the thread's current one
    if (!context.gpu) throw std::runtime_error("device " + context.device + ", expected a GPU");
    for (std::uint32_t i = 0; i < context.instances; ++i) {
      all_.push_back(std::make_shared<instance>());
      context.add(all_.back()->graph->host(), all_.back());
    }
  }

  task run(job_context& job, adaptor_request& request) override {
    instance& on = *all_[job.instance];
    std::memcpy(on.host, request.input(0).data(), bytes);
    std::memcpy(on.host + elements, request.input(1).data(), bytes);
    job.launch(on.graph->host());
    co_await job.synchronize();
    std::memcpy(request.output(0).data(), on.host + elements, bytes);
  }

private:
  std::vector<std::shared_ptr<instance>> all_;
};

} // namespace

GSCHED_ADAPTOR(saxpy)

// SPDX-License-Identifier: Apache-2.0
#include "cuda/needs_gpu.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/gpu.hpp>
#include <gsched/cuda/partition/copy_times.hpp>
#include <gsched/serving/copy_times.hpp>

#include <doctest/doctest.h>

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gsched::testing {
namespace {

/// The least time of some attempts to copy the inputs of 32 requests to the GPU.
duration copied(std::size_t bytes) {
  constexpr std::size_t requests = 32;
  void* on_host = nullptr;
  void* on_gpu = nullptr;
  REQUIRE(cudaMallocHost(&on_host, 2 * requests * bytes) == cudaSuccess);
  REQUIRE(cudaMalloc(&on_gpu, requests * bytes) == cudaSuccess);
  auto* const host = static_cast<std::byte*>(on_host);
  auto* const device = static_cast<std::byte*>(on_gpu);
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  duration least = duration::max();
  for (int attempt = 0; attempt < 9; ++attempt) {
    const auto began = std::chrono::steady_clock::now();
    for (std::size_t r = 0; r < requests; ++r)
      static_cast<void>(cudaMemcpyAsync(device + r * bytes, host + 2 * r * bytes, bytes,
                                        cudaMemcpyHostToDevice, stream));
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
    least = std::min<duration>(least, std::chrono::steady_clock::now() - began);
  }
  cudaStreamDestroy(stream);
  cudaFree(on_gpu);
  cudaFreeHost(on_host);
  return least;
}

TEST_CASE("the copies of a batch take about as long as measured ones") {
  GSCHED_NEEDS_GPU();
  const copy_times t = cuda::measure_copies(0);
  MESSAGE("a copy takes " << t.each.count() << " ns; bytes/ns to the device "
                          << t.to_device_bytes_per_ns << ", to the host "
                          << t.to_host_bytes_per_ns);
  CHECK(t.to_host_bytes_per_ns > 0.1 * t.to_device_bytes_per_ns);
  for (const std::uint64_t bytes : {std::uint64_t{1} << 18, std::uint64_t{1} << 21}) {
    const std::array<std::uint64_t, 1> inputs{bytes};
    const duration expected = copy_time(t, {inputs, {}}, 32);
    const duration measured = copied(bytes);
    CHECK(measured.count() > 0.6 * static_cast<double>(expected.count()));
    CHECK(measured.count() < 1.7 * static_cast<double>(expected.count()));
  }
}

TEST_CASE("copies of a GPU that is not there are refused in one line") {
  GSCHED_NEEDS_GPU();
  CHECK_THROWS_AS(static_cast<void>(cuda::measure_copies(1 << 20)), error);
}

} // namespace
} // namespace gsched::testing

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/needs_gpu.hpp"

#include <gsched/cuda/error.hpp>
#include <gsched/cuda/preempt/preemptible_launch.hpp>

#include <doctest/doctest.h>

#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gsched::testing {

/// Words in device memory, initially zero.
class words {
public:
  explicit words(std::size_t n) : n_(n) {
    void* p = nullptr;
    cuda::check(cudaMalloc(&p, n * sizeof(std::uint32_t)), "memory");
    at_ = static_cast<std::uint32_t*>(p);
    const std::vector<std::uint32_t> zeros(n);
    cuda::check(cudaMemcpy(at_, zeros.data(), n * sizeof(std::uint32_t), cudaMemcpyHostToDevice),
                "memory");
  }
  ~words() { cudaFree(at_); }
  words(const words&) = delete;
  words& operator=(const words&) = delete;

  [[nodiscard]] std::uint32_t* get() const noexcept { return at_; }
  /// Reads the words when nothing runs on the GPU any more.
  [[nodiscard]] std::vector<std::uint32_t> read() const {
    std::vector<std::uint32_t> all(n_);
    cuda::check(cudaDeviceSynchronize(), "end of kernels");
    cuda::check(cudaMemcpy(all.data(), at_, n_ * sizeof(std::uint32_t), cudaMemcpyDeviceToHost),
                "memory");
    return all;
  }

private:
  std::uint32_t* at_ = nullptr;
  std::size_t n_ = 0;
};

/// A word that host and device see, initially 0.
class shared_word {
public:
  shared_word() {
    void* p = nullptr;
    cuda::check(cudaHostAlloc(&p, sizeof(std::uint32_t), cudaHostAllocMapped), "memory");
    at_ = static_cast<std::uint32_t*>(p);
    *at_ = 0;
  }
  ~shared_word() { cudaFreeHost(at_); }
  shared_word(const shared_word&) = delete;
  shared_word& operator=(const shared_word&) = delete;

  [[nodiscard]] std::uint32_t* get() const noexcept { return at_; }
  /// Whether it is set within a second.
  [[nodiscard]] bool await() const {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds{1};
    while (std::atomic_ref(*at_).load(std::memory_order_acquire) == 0)
      if (std::chrono::steady_clock::now() > until) return false;
    return true;
  }

private:
  std::uint32_t* at_ = nullptr;
};

struct stream_of_test {
  cudaStream_t stream = nullptr;
  stream_of_test() {
    cuda::check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  }
  ~stream_of_test() { cudaStreamDestroy(stream); }
  stream_of_test(const stream_of_test&) = delete;
  stream_of_test& operator=(const stream_of_test&) = delete;
};

inline void spin_for(std::chrono::nanoseconds t) {
  const auto until = std::chrono::steady_clock::now() + t;
  while (std::chrono::steady_clock::now() < until) {
  }
}

using end_kind = cuda::preemption_end::kind;

} // namespace gsched::testing

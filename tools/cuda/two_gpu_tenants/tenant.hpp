// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/time.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/program.hpp>
#include <gsched/trace/histogram.hpp>

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace two_gpu_tenants {

using word = std::uint32_t;

struct device_free {
  void operator()(word* p) const noexcept { cudaFree(p); }
};
using device_words = std::unique_ptr<word, device_free>;

[[nodiscard]] inline device_words make_device_words(std::size_t n) {
  void* p = nullptr;
  gsched::cuda::check(cudaMalloc(&p, n * sizeof(word)), "device memory");
  return device_words(static_cast<word*>(p));
}

/// One set of memory, and what a job does on it: programs one after another, then the result comes
/// to the host. Programs hold addresses, so jobs of a tenant that overlap each need an instance.
struct instance {
  std::vector<device_words> memory;
  std::vector<gsched::cuda::program> programs;
  const word* result = nullptr;
};

struct tenant {
  std::string name;
  std::vector<instance> instances;
  std::vector<word> expected; ///< of each job, made on the CPU

  [[nodiscard]] std::size_t result_bytes() const noexcept { return expected.size() * sizeof(word); }
  [[nodiscard]] bool is_right(const void* result) const noexcept {
    return std::memcmp(result, expected.data(), result_bytes()) == 0;
  }
};

/// The first tenant's jobs arrive at these times; the second always has some in flight, until the
/// first has no more to come.
struct arrivals {
  std::vector<gsched::duration> first;
  std::size_t second_in_flight = 2;
};

/// What both tenants saw in one run.
struct outcome {
  std::array<gsched::trace::histogram, 2> latency;
  std::array<std::uint64_t, 2> wrong{}; ///< jobs whose result was not the CPU's
  double seconds = 0;
};

/// Through gsched: shortest remaining job first, but neither tenant starves.
[[nodiscard]] outcome run_scheduled(int gpu, std::array<tenant, 2>& tenants, const arrivals& when);
/// As programs do without it: a stream for each tenant, onto which its jobs go as they arrive.
[[nodiscard]] outcome run_unscheduled(std::array<tenant, 2>& tenants, const arrivals& when);

} // namespace two_gpu_tenants

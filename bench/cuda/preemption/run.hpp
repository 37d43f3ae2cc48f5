// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "experiment.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace preemption_bench {

struct options {
  unsigned repeats = 2000;      ///< of each latency
  unsigned rounds = 60;         ///< of each cost, all variants interleaved
  unsigned preemptions = 10000; ///< with results compared
  unsigned step = 300;          ///< cycles between checkpoints of the kernel that fills the GPU
  int gpu = 0;
  std::string json;
};

void run(const options& o);

/// Shared by the parts: streams, the watchdog, and memory that is freed with it.
class stage {
public:
  explicit stage(int gpu);
  ~stage();
  stage(const stage&) = delete;
  stage& operator=(const stage&) = delete;

  cudaStream_t best_effort = nullptr; ///< of the lowest priority
  cudaStream_t real_time = nullptr;   ///< of the highest
  unsigned sms = 0;
  experiment::watchdog dog{"gsched.gpu.preemption"};

  /// In device memory, initially zero.
  template <class T>
  [[nodiscard]] T* device(std::size_t n) {
    return static_cast<T*>(device_bytes(n * sizeof(T)));
  }
  /// Visible to both, initially zero, on a cache line of its own.
  [[nodiscard]] std::uint32_t* pinned();

private:
  [[nodiscard]] void* device_bytes(std::size_t n);
  std::vector<void*> device_;
  std::vector<void*> pinned_;
};

/// p10, p50, p90, p99, maximum and count; prints a line.
[[nodiscard]] nlohmann::json summary(const std::string& name, const std::vector<double>& us);

void latencies(stage& s, const options& o, nlohmann::json& out);
void breakdown(stage& s, const options& o, nlohmann::json& out);
void costs(stage& s, const options& o, nlohmann::json& out);
void equality(stage& s, const options& o, nlohmann::json& out);

} // namespace preemption_bench

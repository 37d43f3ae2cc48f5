// SPDX-License-Identifier: Apache-2.0
#include "run.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/gpu.hpp>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>

namespace preemption_bench {

using nlohmann::json;
namespace cuda = gsched::cuda;

stage::stage(int gpu) {
  cuda::check(cudaSetDevice(gpu), "GPU");
  sms = cuda::find_gpu(gpu).sms.count();
  int least = 0;
  int greatest = 0;
  cuda::check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "streams");
  cuda::check(cudaStreamCreateWithPriority(&best_effort, cudaStreamNonBlocking, least), "stream");
  cuda::check(cudaStreamCreateWithPriority(&real_time, cudaStreamNonBlocking, greatest), "stream");
}

stage::~stage() {
  cudaDeviceSynchronize();
  for (void* p : device_) cudaFree(p);
  for (void* p : pinned_) cudaFreeHost(p);
  cudaStreamDestroy(best_effort);
  cudaStreamDestroy(real_time);
}

void* stage::device_bytes(std::size_t n) {
  void* p = nullptr;
  cuda::check(cudaMalloc(&p, n), "memory");
  device_.push_back(p);
  const std::vector<char> zeros(n);
  cuda::check(cudaMemcpy(p, zeros.data(), n, cudaMemcpyHostToDevice), "memory");
  return p;
}

std::uint32_t* stage::pinned() {
  constexpr std::size_t line = 256;
  void* p = nullptr;
  cuda::check(cudaHostAlloc(&p, line, cudaHostAllocMapped), "pinned memory");
  pinned_.push_back(p);
  auto* const words = static_cast<std::uint32_t*>(p);
  std::fill_n(words, line / sizeof(std::uint32_t), 0u);
  return words;
}

json summary(const std::string& name, const std::vector<double>& us) {
  json row{{"name", name}, {"n", us.size()}};
  for (const int p : {1, 10, 50, 90, 99})
    row[fmt::format("p{}_us", p)] = experiment::quantile(us, p / 100.);
  row["max_us"] = experiment::quantile(us, 1);
  std::vector<double> sorted = us;
  std::sort(sorted.begin(), sorted.end());
  for (unsigned p = 0; p <= 100 && !sorted.empty(); ++p)
    row["quantiles_us"].push_back(sorted[(sorted.size() - 1) * p / 100]);
  fmt::print("{:<64} {:>8.2f} {:>8.2f} {:>8.2f} {:>8.2f} {:>9.2f} {:>7}\n", name,
             row["p10_us"].get<double>(), row["p50_us"].get<double>(), row["p90_us"].get<double>(),
             row["p99_us"].get<double>(), row["max_us"].get<double>(), us.size());
  std::fflush(stdout);
  return row;
}

void run(const options& o) {
  std::ofstream file;
  if (!o.json.empty()) {
    file.open(o.json);
    if (!file)
      throw gsched::error(gsched::errc::io,
                          o.json + ": cannot be written, expected a path that can");
  }
  static_cast<void>(cuda::driver());
  stage s(o.gpu);
  const cuda::gpu gpu = cuda::find_gpu(o.gpu);
  json out{{"experiment", "preemption"},
           {"gpu", gpu.name},
           {"sms", s.sms},
           {"when", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))},
           {"step_cycles", o.step}};
  fmt::print("{}, {} SMs\n", gpu.name, s.sms);
  latencies(s, o, out);
  breakdown(s, o, out);
  costs(s, o, out);
  equality(s, o, out);
  if (file.is_open() && !(file << out.dump(1) << '\n'))
    throw gsched::error(gsched::errc::io, o.json + ": not written whole, expected room for it");
  if (!out["equality"]["all_equal"].get<bool>())
    throw gsched::error(gsched::errc::device_failed,
                        "results differ, expected those of undisturbed runs");
}

} // namespace preemption_bench

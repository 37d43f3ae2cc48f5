// SPDX-License-Identifier: Apache-2.0
#include "calibrate/experiments.hpp"

#include <gsched/core/error.hpp>
#include <gsched/cuda/error.hpp>

#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

namespace calibrate {

namespace {

using gsched::errc;
using gsched::error;
using gsched::cuda::check;

constexpr std::size_t streams = 192; ///< more kernels than any GPU runs at once
constexpr std::size_t chains = 96;
constexpr std::uint64_t kernel_ns = 20'000'000; ///< much longer than submitting all of them

/// The number of kernels that ran before the first one ended, with `length` kernels on each of `n`
/// streams, submitted stream by stream. The second kernel of a stream blocks its queue until the
/// first one has ended.
std::uint32_t at_once(const std::vector<cudaStream_t>& all, std::size_t n, int length, starts* at) {
  check(cudaMemset(at, 0, sizeof *at), "device memory");
  check(cudaDeviceSynchronize(), "waiting for the GPU");
  for (std::size_t i = 0; i < n; ++i)
    for (int k = 0; k < length; ++k) check(launch_counted(all[i], at, kernel_ns), "a kernel");
  check(cudaDeviceSynchronize(), "waiting for the GPU");
  starts r;
  check(cudaMemcpy(&r, at, sizeof r, cudaMemcpyDeviceToHost), "device memory");
  return r.at_first_end;
}

std::string own_path() {
  std::array<char, 4096> path{};
  const ssize_t n = ::readlink("/proc/self/exe", path.data(), path.size() - 1);
  const std::string found(path.data(), n > 0 ? static_cast<std::size_t>(n) : 0);
  if (found.empty() || found.find('\'') != std::string::npos)
    throw error(errc::io, "calibrate: cannot be started again from '" + found +
                              "', expected a path without quotes");
  return found;
}

} // namespace

queue_figures count_here(const gsched::cuda::gpu& which) {
  check(cudaSetDevice(which.ordinal), "choosing the GPU");
  void* memory = nullptr;
  check(cudaMalloc(&memory, sizeof(starts)), "device memory");
  auto* const at = static_cast<starts*>(memory);
  std::vector<cudaStream_t> all(streams);
  for (cudaStream_t& s : all)
    check(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), "a stream");
  for (const cudaStream_t s : all) // warm-up: the first launch of a kernel and a stream is slow
    check(launch_counted(s, at, 1000), "a kernel");
  queue_figures found;
  found.grids = at_once(all, streams, 1, at);
  found.chains = at_once(all, chains, 2, at);
  return found; // the process ends, and the streams with it
}

queue_figures count_in_child(int gpu, std::uint32_t connections) {
  const std::string command = "CUDA_DEVICE_MAX_CONNECTIONS=" + std::to_string(connections) +
                              " exec '" + own_path() + "' --device cuda:" + std::to_string(gpu) +
                              " --count-queues";
  std::FILE* const out = ::popen(command.c_str(), "r");
  if (out == nullptr) throw error(errc::io, "a second process: cannot be started, expected one");
  queue_figures found;
  const bool read = std::fscanf(out, "%u %u", &found.grids, &found.chains) == 2;
  const int status = ::pclose(out);
  if (!read || status != 0)
    throw error(errc::device_failed, "counting hardware queues with " +
                                         std::to_string(connections) +
                                         " connections: the second process failed, expected two "
                                         "numbers");
  return found;
}

} // namespace calibrate

// SPDX-License-Identifier: Apache-2.0
#include "cuda/device/device_kernels.hpp"

#include <gsched/cuda/call.hpp>
#include <gsched/cuda/capture.hpp>

#include <chrono>
#include <utility>

namespace gsched::testing {

namespace {

__global__ void faulty_kernel(int* nowhere) { *nowhere = 1; }

__global__ void endless_kernel(const int* stop) {
  const volatile int* seen = stop;
  while (*seen == 0) {
  }
}

cuda::program_options not_measured(std::string name) {
  cuda::program_options o;
  o.name = std::move(name);
  o.durations = {std::chrono::microseconds{10}};
  o.measure = false;
  return o;
}

} // namespace

cuda::program make_faulty(std::string name) {
  return cuda::make_call(not_measured(std::move(name)), {}, faulty_kernel,
                         reinterpret_cast<int*>(0x10));
}

cuda::program make_endless(std::string name, const int* stop) {
  return cuda::make_call(not_measured(std::move(name)), {}, endless_kernel, stop);
}

cuda::program make_endless_everywhere(std::string name, const int* stop) {
  return cuda::make_call(not_measured(std::move(name)), {.grid = 10'000, .block = 1024},
                         endless_kernel, stop);
}

cuda::program make_endless_chain(std::string name, std::size_t n, const int* stop) {
  cuda::program_options how = not_measured(name);
  how.durations.assign(n, std::chrono::microseconds{10});
  cuda::stream_capture c(name);
  for (std::size_t i = 0; i < n; ++i) endless_kernel<<<1, 32, 0, c.stream()>>>(stop);
  return cuda::program(c.end(), how);
}

} // namespace gsched::testing

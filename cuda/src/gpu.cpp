// SPDX-License-Identifier: Apache-2.0
#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/gpu.hpp>

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

namespace gsched::cuda {

gpu find_gpu(int ordinal) {
  static_cast<void>(driver()); // says in one line what is absent
  int gpus = 0;
  check(cudaGetDeviceCount(&gpus), "CUDA");
  if (ordinal < 0 || ordinal >= gpus)
    throw error(errc::no_device, "GPU " + std::to_string(ordinal) + ": not there, expected 0 to " +
                                     std::to_string(gpus - 1));
  cudaDeviceProp p{};
  check(cudaGetDeviceProperties(&p, ordinal), "GPU properties");
  check(cudaInitDevice(ordinal, 0, 0), "GPU context");
  gpu g;
  g.ordinal = ordinal;
  g.name = p.name;
  g.sm = limits_for(static_cast<std::uint32_t>(p.major), static_cast<std::uint32_t>(p.minor));
  g.sms = sm_count{static_cast<std::uint32_t>(p.multiProcessorCount)};
  g.memory = byte_count{p.totalGlobalMem};
  check(cudaDriverGetVersion(&g.driver_version), "CUDA driver");
  check(cudaRuntimeGetVersion(&g.runtime_version), "CUDA runtime");
  return g;
}

} // namespace gsched::cuda

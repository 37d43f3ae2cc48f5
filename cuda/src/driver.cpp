// SPDX-License-Identifier: Apache-2.0
#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>

#include <cuda_runtime_api.h>

#include <string>

namespace gsched::cuda {

namespace {

template <class Function>
void find(const char* name, Function& into) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult how = cudaDriverEntryPointSymbolNotFound;
  check(cudaGetDriverEntryPointByVersion(name, &found, CUDART_VERSION, cudaEnableDefault, &how),
        "CUDA driver");
  if (how != cudaDriverEntryPointSuccess || found == nullptr)
    throw error(errc::no_device, "CUDA driver: no " + std::string(name) +
                                     ", expected a driver of CUDA " +
                                     std::to_string(CUDART_VERSION / 1000) + " or later");
  into = reinterpret_cast<Function>(found);
}

driver_functions find_all() {
  int version = 0;
  check(cudaDriverGetVersion(&version), "CUDA driver");
  if (version == 0) throw error(errc::no_device, "CUDA driver: none found, expected one");
  int gpus = 0;
  check(cudaGetDeviceCount(&gpus), "CUDA driver"); // too old a driver is told here
  if (gpus == 0) throw error(errc::no_device, "CUDA: no GPU found, expected one");
  driver_functions f;
#define GSCHED_CUDA_FIND(name) find(#name, f.name);
  GSCHED_CUDA_DRIVER_FUNCTIONS(GSCHED_CUDA_FIND)
#undef GSCHED_CUDA_FIND
  return f;
}

} // namespace

const driver_functions& driver() {
  static const driver_functions found = find_all(); // thrown out of: tried again next time
  return found;
}

} // namespace gsched::cuda

// SPDX-License-Identifier: Apache-2.0
#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/error.hpp>

#include <cuda_runtime_api.h>

#include <string>

namespace gsched::cuda {

namespace {

/// Sets `into` to null if the driver lacks the function.
template <class Function>
void find(const char* name, Function& into) noexcept {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult how = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t e =
      cudaGetDriverEntryPointByVersion(name, &found, CUDART_VERSION, cudaEnableDefault, &how);
  if (e != cudaSuccess || how != cudaDriverEntryPointSuccess) {
    static_cast<void>(cudaGetLastError());
    found = nullptr;
  }
  into = reinterpret_cast<Function>(found);
}

template <class Function>
void expect(const char* name, Function found, const char* expected) {
  if (found == nullptr)
    throw error(errc::no_device,
                "CUDA driver: no " + std::string(name) + ", expected a driver of " + expected);
}

driver_functions find_all() {
  int version = 0;
  check(cudaDriverGetVersion(&version), "CUDA driver");
  if (version == 0) throw error(errc::no_device, "CUDA driver: none found, expected one");
  int gpus = 0;
  check(cudaGetDeviceCount(&gpus), "CUDA driver"); // fails for a driver that is too old
  if (gpus == 0) throw error(errc::no_device, "CUDA: no GPU found, expected one");
  driver_functions f;
#define GSCHED_CUDA_FIND(name) find(#name, f.name);
  GSCHED_CUDA_DRIVER_FUNCTIONS(GSCHED_CUDA_FIND)
  GSCHED_CUDA_PARTITION_FUNCTIONS(GSCHED_CUDA_FIND)
#undef GSCHED_CUDA_FIND
  expect_functions(f);
  return f;
}

} // namespace

void expect_functions(const driver_functions& f) {
#define GSCHED_CUDA_EXPECT(name) expect(#name, f.name, "CUDA 13 or later");
  GSCHED_CUDA_DRIVER_FUNCTIONS(GSCHED_CUDA_EXPECT)
#undef GSCHED_CUDA_EXPECT
}

void expect_partition_functions(const driver_functions& f) {
#define GSCHED_CUDA_EXPECT(name) expect(#name, f.name, "CUDA 12.5 or later for partitions");
  GSCHED_CUDA_PARTITION_FUNCTIONS(GSCHED_CUDA_EXPECT)
#undef GSCHED_CUDA_EXPECT
}

const driver_functions& driver() {
  static const driver_functions found = find_all(); // if it throws, the next call tries again
  return found;
}

const driver_functions& driver_of_partitions() {
  const driver_functions& f = driver();
  expect_partition_functions(f);
  return f;
}

} // namespace gsched::cuda

// SPDX-License-Identifier: Apache-2.0
#include <gsched/cuda/driver.hpp>
#include <gsched/cuda/memory_kind.hpp>

#include <cuda_runtime_api.h>

#include <cstdint>

namespace gsched::cuda {

memory_kind kind_of_memory(const void* p) noexcept {
  std::uint32_t type = 0;
  const CUresult e = driver().cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                                    reinterpret_cast<CUdeviceptr>(p));
  if (e == CUDA_SUCCESS)
    return type == CU_MEMORYTYPE_DEVICE ? memory_kind::device : memory_kind::pinned;
  if (e == CUDA_ERROR_INVALID_VALUE) return memory_kind::pageable; // memory that it does not know
  // The driver would not say, maybe as the thread has no context: the runtime gives it one.
  cudaPointerAttributes a{};
  if (cudaPointerGetAttributes(&a, p) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return memory_kind::pageable;
  }
  if (a.type == cudaMemoryTypeUnregistered) return memory_kind::pageable;
  return a.type == cudaMemoryTypeHost ? memory_kind::pinned : memory_kind::device;
}

std::uintptr_t allocation_of_memory(const void* p) noexcept {
  CUdeviceptr begin = 0;
  const CUresult e = driver().cuPointerGetAttribute(&begin, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                                    reinterpret_cast<CUdeviceptr>(p));
  return e == CUDA_SUCCESS ? static_cast<std::uintptr_t>(begin) : 0;
}

} // namespace gsched::cuda

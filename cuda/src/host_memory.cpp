// SPDX-License-Identifier: Apache-2.0
#include <gsched/cuda/error.hpp>
#include <gsched/cuda/gpu.hpp>
#include <gsched/cuda/host_memory.hpp>

#include <cuda_runtime_api.h>

#include <string>

namespace gsched::cuda {

void pin_memory(int gpu, std::span<std::byte> memory) {
  const current_gpu here(gpu);
  const cudaError_t e = cudaHostRegister(memory.data(), memory.size(), cudaHostRegisterPortable);
  if (e == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());
  fail(code_of(e), "pin " + std::to_string(memory.size()) + " bytes");
}

void unpin_memory(int gpu, std::span<std::byte> memory) noexcept {
  const current_gpu here(gpu);
  if (cudaHostUnregister(memory.data()) != cudaSuccess) static_cast<void>(cudaGetLastError());
}

} // namespace gsched::cuda

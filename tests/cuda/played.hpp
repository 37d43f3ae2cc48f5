// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <climits>
#include <cstdint>
#include <set>

namespace gsched::testing {

/// Plays CUDA: gives out addresses of its own, and fails one call. Its functions replace CUDA's at
/// link time (-Wl,--wrap), so no GPU is needed. One thread at a time, but for capture modes.
struct played {
  int calls_until_failure = INT_MAX; ///< and from then on all fail
  std::uintptr_t next = 0x1000;
  std::set<std::uintptr_t> alive{};
  bool wrong = false; ///< something was destroyed that was not there

  [[nodiscard]] bool fails() { return --calls_until_failure < 0; }
  template <class T>
  [[nodiscard]] cudaError_t make(T** out) {
    if (fails()) return cudaErrorUnknown;
    alive.insert(next += 0x1000);
    *out = reinterpret_cast<T*>(next);
    return cudaSuccess;
  }
  cudaError_t destroy(const void* p) {
    if (p != nullptr && alive.erase(reinterpret_cast<std::uintptr_t>(p)) == 0) wrong = true;
    return cudaSuccess;
  }
  [[nodiscard]] cudaError_t work() { return fails() ? cudaErrorUnknown : cudaSuccess; }
};
extern played cuda_played;

} // namespace gsched::testing

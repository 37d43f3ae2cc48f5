// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "padding/subjects.hpp"

#include <gsched/cuda/error.hpp>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace padding {

inline void check(cudaError_t e) { gsched::cuda::check(e, "padding"); }

/// Inputs, outputs of both roles, stamps.
class pool {
public:
  static constexpr std::size_t values = std::size_t{1} << 24; ///< of an input or an output

  pool() {
    check(cudaMalloc(&floats_, 4 * values * sizeof(float)));
    check(cudaMalloc(&scratch_, sizeof(stamps)));
    std::vector<float> some(values);
    std::uint32_t x = 1;
    for (float& v : some) {
      x = x * 1664525u + 1013904223u;
      v = static_cast<float>(x >> 8) / static_cast<float>(1u << 24) - 0.5f;
    }
    for (float* to : {a(), b()})
      check(cudaMemcpy(to, some.data(), values * sizeof(float), cudaMemcpyHostToDevice));
  }
  ~pool() {
    cudaFree(floats_);
    cudaFree(scratch_);
  }
  pool(const pool&) = delete;
  pool& operator=(const pool&) = delete;

  [[nodiscard]] float* a() const { return floats_; }
  [[nodiscard]] float* b() const { return floats_ + values; }
  [[nodiscard]] float* out(bool real) const { return floats_ + (real ? 2 : 3) * values; }
  [[nodiscard]] stamps* scratch() const { return scratch_; }

private:
  float* floats_ = nullptr;
  stamps* scratch_ = nullptr;
};

} // namespace padding

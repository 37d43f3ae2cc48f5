// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/error.hpp>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <utility>

namespace gsched::cuda {

/// Owns device memory.
class device_buffer {
public:
  device_buffer() = default;
  device_buffer(std::size_t bytes, const char* where) { check(cudaMalloc(&at_, bytes), where); }
  ~device_buffer() { cudaFree(at_); }
  device_buffer(device_buffer&& o) noexcept : at_(std::exchange(o.at_, nullptr)) {}
  device_buffer& operator=(device_buffer&& o) noexcept {
    std::swap(at_, o.at_);
    return *this;
  }

  [[nodiscard]] void* get() const noexcept { return at_; }
  template <class T>
  [[nodiscard]] T* as() const noexcept {
    return static_cast<T*>(at_);
  }

private:
  void* at_ = nullptr;
};

} // namespace gsched::cuda

// SPDX-License-Identifier: Apache-2.0
#include <gsched/cuda/error.hpp>

#include <string>
#include <system_error>

namespace gsched::cuda {

const std::error_category& category() noexcept {
  struct cuda_category final : std::error_category {
    const char* name() const noexcept override { return "cuda"; }
    std::string message(int code) const override {
      const auto e = static_cast<cudaError_t>(code);
      return std::string(cudaGetErrorString(e)) + " (" + cudaGetErrorName(e) + ")";
    }
  };
  static const cuda_category instance;
  return instance;
}

void fail(std::error_code e, const std::string& what) {
  const bool absent =
      e == code_of(cudaErrorNoDevice) || e == code_of(cudaErrorInsufficientDriver) ||
      e == code_of(cudaErrorStubLibrary) || e == code_of(cudaErrorInitializationError);
  const bool full = e == code_of(cudaErrorMemoryAllocation);
  throw error(absent ? errc::no_device
              : full ? errc::out_of_memory
                     : errc::device_failed,
              what + ": " + e.message());
}

} // namespace gsched::cuda

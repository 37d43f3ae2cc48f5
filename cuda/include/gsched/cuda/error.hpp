// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/error.hpp>

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <string>
#include <system_error>

namespace gsched::cuda {

/// Error codes of the CUDA runtime. The driver's codes have the same numbers where both define one.
/// message() is CUDA's: "an illegal memory access was encountered (cudaErrorIllegalAddress)".
[[nodiscard]] const std::error_category& category() noexcept;

[[nodiscard]] inline std::error_code code_of(cudaError_t e) noexcept {
  return e == cudaSuccess ? std::error_code{} : std::error_code{static_cast<int>(e), category()};
}
[[nodiscard]] inline std::error_code code_of(CUresult e) noexcept {
  return code_of(static_cast<cudaError_t>(e));
}

/// Throws gsched::error with the line "WHAT: CUDA's message".
/// Errors   no_device without a GPU or a driver that is new enough; out_of_memory; else
///          device_failed.
[[noreturn]] void fail(std::error_code e, const std::string& what);

/// Throws if a call of set-up failed.
inline void check(cudaError_t e, const char* what) {
  if (e != cudaSuccess) fail(code_of(e), what);
}
inline void check(CUresult e, const char* what) {
  if (e != CUDA_SUCCESS) fail(code_of(e), what);
}

} // namespace gsched::cuda

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>
#include <gsched/device/device.hpp>
#include <gsched/occupancy/limits.hpp>

#include <cuda_runtime_api.h>

#include <string>

namespace gsched::cuda {

/// One GPU of this machine, by the runtime's number for it.
struct gpu {
  int ordinal = 0;
  std::string name; ///< as the driver says: "NVIDIA H200"
  architecture_limits sm{};
  sm_count sms{};
  byte_count memory{};
  int driver_version = 0;  ///< 13000 is CUDA 13.0
  int runtime_version = 0; ///< of this build
};

/// The limits of a GPU as the driver tells them, for a compute capability that limits_for does not
/// know. Units of allocation and registers of a thread, which the driver does not tell, are those
/// of the newest one that it knows.
[[nodiscard]] architecture_limits driver_limits(const cudaDeviceProp& properties, bool clusters);

/// Looks at a GPU and makes its primary context.
/// Errors   no_device: no driver, one too old, no GPU, or no GPU of that number; one line each.
[[nodiscard]] gpu find_gpu(int ordinal);

/// Makes a GPU current for the calling thread while it lives, and puts back what was.
/// Cost     a few tens of nanoseconds where it is current already.
class current_gpu {
public:
  explicit current_gpu(int ordinal) noexcept {
    if (cudaGetDevice(&before_) != cudaSuccess || before_ == ordinal)
      before_ = ordinal;
    else
      cudaSetDevice(ordinal);
    now_ = ordinal;
  }
  ~current_gpu() {
    if (before_ != now_) cudaSetDevice(before_);
  }
  current_gpu(const current_gpu&) = delete;
  current_gpu& operator=(const current_gpu&) = delete;

private:
  int before_ = 0;
  int now_ = 0;
};

} // namespace gsched::cuda

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>
#include <gsched/device/device.hpp>
#include <gsched/occupancy/limits.hpp>

#include <cuda_runtime_api.h>

#include <string>

namespace gsched::cuda {

/// A GPU of this machine.
struct gpu {
  int ordinal = 0;  ///< the runtime's device number
  std::string name; ///< the driver's name: "NVIDIA H200"
  architecture_limits sm{};
  sm_count sms{};
  byte_count memory{};
  byte_count l2{};
  int driver_version = 0;  ///< 13000 is CUDA 13.0
  int runtime_version = 0; ///< of this build
};

/// The limits of a compute capability that limits_for does not know, as the driver reports them.
/// The driver does not report allocation units and registers of a thread; those are taken from the
/// newest known capability.
[[nodiscard]] architecture_limits driver_limits(const cudaDeviceProp& properties, bool clusters);

/// Queries a GPU and creates its primary context.
/// Errors   no_device, in one line each: no driver, a driver that is too old, no GPU, no such GPU.
[[nodiscard]] gpu find_gpu(int ordinal);

/// Makes a GPU current for the calling thread, and restores the former one when destroyed.
/// Cost     a few tens of nanoseconds if the GPU is already current.
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

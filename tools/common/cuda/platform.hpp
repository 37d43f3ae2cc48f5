// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/cuda/cuda_backend.hpp"
#include "common/run/platform.hpp"

#include <gsched/cuda/gpu.hpp>
#include <gsched/occupancy/limits.hpp>

#include <cstdint>
#include <memory>
#include <string>

namespace common {

/// Serve: void(const Run&, cuda_backend&).
template <class Run, class Serve>
class cuda_platform final : public platform<Run> {
public:
  cuda_platform(const device_choice& which, std::uint64_t solo_requests, Serve serve)
      : gpu_(open_gpu(which)), solo_requests_(solo_requests), serve_(serve) {}

  [[nodiscard]] gsched::architecture_limits sm() const override { return gpu_.sm; }
  [[nodiscard]] std::string name() const override { return gpu_.name; }
  [[nodiscard]] std::uint64_t solo_requests() const noexcept override { return solo_requests_; }
  [[nodiscard]] bool runs_in_parallel() const noexcept override { return false; }
  void serve(const Run& run) override {
    cuda_backend on{gpu_.ordinal, run.record};
    serve_(run, on);
  }

private:
  gsched::cuda::gpu gpu_;
  std::uint64_t solo_requests_;
  Serve serve_;
};

/// Errors   no_device for a GPU that is not there or cannot be used.
template <class Run, class Serve>
[[nodiscard]] std::unique_ptr<platform<Run>> make_real(const device_choice& which,
                                                       std::uint64_t solo_requests, Serve serve) {
  return std::make_unique<cuda_platform<Run, Serve>>(which, solo_requests, serve);
}

} // namespace common

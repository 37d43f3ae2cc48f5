// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/partition/partitions.hpp>
#include <gsched/cuda/program.hpp>
#include <gsched/cuda_tools/replaying.hpp>

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <span>

namespace plan_switch {

/// A partition with everything that a model needs to run on it: a stream, the model's graph, a
/// graph of a single short block before it, and words that report when those have run.
class seat {
public:
  /// The programs must outlive it.
  /// Errors   gsched::error.
  seat(int gpu, std::span<const std::uint32_t> groups, const gsched::cuda::program& first,
       const gsched::cuda::program& model);
  ~seat();
  seat(const seat&) = delete;
  seat& operator=(const seat&) = delete;

  /// One request: the first block reports that it runs here, and the end of the model reports
  /// again.
  void submit();
  [[nodiscard]] bool started() const noexcept { return word(0) >= requests_; }
  [[nodiscard]] bool ended() const noexcept { return word(1) >= requests_; }
  [[nodiscard]] gsched::sm_count sms() const noexcept { return partition_->sms(); }

private:
  [[nodiscard]] std::uint64_t word(int which) const noexcept {
    return static_cast<const volatile std::uint64_t*>(words_)[which];
  }

  std::shared_ptr<const gsched::cuda::partition> partition_;
  CUstream stream_ = nullptr;
  gsched::cuda::placed_graph first_, model_;
  std::uint64_t* words_ = nullptr; ///< pinned
  CUdeviceptr words_there_ = 0;
  std::uint64_t requests_ = 0;
};

} // namespace plan_switch

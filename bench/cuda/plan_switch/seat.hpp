// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/cuda/partition/partitions.hpp>
#include <gsched/cuda/program.hpp>

#include <cuda.h>

#include <cstdint>
#include <span>

namespace plan_switch {

/// A partition with everything that a model needs to run on it: a stream, the model's graph, a
/// graph of a single short block before it, and words that report when those have run.
class seat {
public:
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
  [[nodiscard]] gsched::sm_count sms() const noexcept { return partition_.sms(); }

private:
  [[nodiscard]] std::uint64_t word(int which) const noexcept {
    return static_cast<const volatile std::uint64_t*>(words_)[which];
  }

  gsched::cuda::partition partition_;
  CUstream stream_ = nullptr;
  CUgraphExec first_ = nullptr, model_ = nullptr;
  std::uint64_t* words_ = nullptr; ///< pinned
  CUdeviceptr words_there_ = 0;
  std::uint64_t requests_ = 0;
};

} // namespace plan_switch

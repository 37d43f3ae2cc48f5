// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gsched {

/// The share of one model's request rate that one partition serves.
struct portion {
  std::size_t model = 0;   ///< index into the latency table
  double rate = 0;         ///< requests a second
  std::uint32_t batch = 0; ///< requests of a batch, at most
  bool operator==(const portion&) const noexcept = default;
};

/// A planned partition (in the paper: gpu-let): SMs of one GPU and the models that share them in
/// time.
struct gpulet {
  std::uint32_t gpu = 0;
  sm_count sms{};
  duration cycle{}; ///< duty cycle: each portion runs one batch in each cycle
  std::vector<portion> portions{};
  bool operator==(const gpulet&) const noexcept = default;
};

/// The partitions of all GPUs and the models that they serve: the answer to demands.
struct partition_plan {
  std::vector<gpulet> gpulets{};
  bool operator==(const partition_plan&) const noexcept = default;
};

} // namespace gsched

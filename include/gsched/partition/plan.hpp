// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gsched {

/// A part of a model's requests that one partition serves, and in what batches.
struct portion {
  std::size_t model = 0; ///< in the latency table
  double rate = 0;       ///< requests a second
  std::uint32_t batch = 0;
  bool operator==(const portion&) const noexcept = default;
};

/// A partition of a GPU, and the models that take turns on it: gpu-let.
struct gpulet {
  std::uint32_t gpu = 0;
  sm_count sms{};
  duration cycle{}; ///< in which each of them runs a batch
  std::vector<portion> portions{};
  bool operator==(const gpulet&) const noexcept = default;
};

/// Who serves what: an answer to demands.
struct partition_plan {
  std::vector<gpulet> gpulets{};
  bool operator==(const partition_plan&) const noexcept = default;
};

} // namespace gsched

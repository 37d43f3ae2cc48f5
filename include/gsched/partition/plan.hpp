// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gsched/core/quantity.hpp>
#include <gsched/core/time.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
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
///
/// Partitions of a GPU with the same region have the same SMs and run at the same time, each in its
/// own cycle; the hardware interleaves their blocks. Without a region a partition's SMs are its
/// own.
struct gpulet {
  std::uint32_t gpu = 0;
  sm_count sms{};
  duration cycle{}; ///< duty cycle: each portion runs one batch in each cycle
  std::vector<portion> portions{};
  std::uint32_t region = 0; ///< 0: none; a number within the GPU and the plan
  bool operator==(const gpulet&) const noexcept = default;
};

/// Whether two partitions of one GPU have the same SMs.
[[nodiscard]] inline bool share_sms(const gpulet& a, const gpulet& b) noexcept {
  return a.region != 0 && a.region == b.region;
}

/// The partitions of all GPUs and the models that they serve: the answer to demands.
struct partition_plan {
  std::vector<gpulet> gpulets{};
  bool operator==(const partition_plan&) const noexcept = default;
};

/// The sizes of the SM ranges that partitions of one GPU occupy: a region counts once.
[[nodiscard]] inline std::vector<sm_count> occupied_sizes(std::span<const gpulet> here) {
  std::vector<sm_count> sizes;
  for (std::size_t i = 0; i < here.size(); ++i) {
    const bool is_counted = std::any_of(here.begin(), here.begin() + static_cast<std::ptrdiff_t>(i),
                                        [&](const gpulet& g) { return share_sms(g, here[i]); });
    if (!is_counted) sizes.push_back(here[i].sms);
  }
  return sizes;
}

/// The partitions of each GPU, in the plan's order; up to the last GPU that has one.
[[nodiscard]] inline std::vector<std::vector<gpulet>> by_gpu(const partition_plan& plan) {
  std::vector<std::vector<gpulet>> on;
  for (const gpulet& g : plan.gpulets) {
    if (g.gpu >= on.size()) on.resize(g.gpu + 1);
    on[g.gpu].push_back(g);
  }
  return on;
}

/// The SMs of a GPU that a plan's partitions occupy.
[[nodiscard]] inline std::uint32_t sms_of(const partition_plan& plan, std::uint32_t gpu) {
  std::uint32_t all = 0;
  std::vector<gpulet> here;
  for (const gpulet& g : plan.gpulets)
    if (g.gpu == gpu) here.push_back(g);
  for (const sm_count s : occupied_sizes(here)) all += s.count();
  return all;
}

/// The SMs of all GPUs that a plan's partitions occupy.
[[nodiscard]] inline std::uint32_t sms_of(const partition_plan& plan) {
  std::uint32_t all = 0, gpus = 0;
  for (const gpulet& g : plan.gpulets) gpus = std::max(gpus, g.gpu + 1);
  for (std::uint32_t g = 0; g < gpus; ++g) all += sms_of(plan, g);
  return all;
}

} // namespace gsched
